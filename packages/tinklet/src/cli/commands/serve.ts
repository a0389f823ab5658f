/** `serve`: the Tinker API on this machine, until Ctrl-C. */
import { readFile } from "node:fs/promises";
import { bundledModel } from "@tinklet/models/config";
import { omitUndefined } from "@tinklet/wire/options";
import { localKey } from "@tinklet/wire/running-server";
import type { Command } from "../command.ts";
import { asSaid, engineNotices } from "../context.ts";
import { checkLocalModel } from "../model.ts";
import { CliError } from "../output/explain.ts";
import { UsageError } from "../parse.ts";
import { openStudio } from "../studio.ts";

export const serve: Command = {
  usage: "serve [--host HOST] [--port N] [--model PATH_OR_ID ...]",
  about: "Runs the Tinker API on this machine. On loopback any key that begins with tml- works.",
  options: {
    host: { type: "string", about: "address to listen on (default 127.0.0.1)" },
    port: { type: "string", value: "N", about: "0 picks a free port (default 8471)" },
    model: {
      type: "string",
      multiple: true,
      short: "m",
      value: "MODEL",
      about: `folder, file, Hub id, or name=any of these (repeatable; default ${bundledModel})`,
    },
    "api-keys": { type: "string", value: "FILE", about: "accepted keys; required for addresses beyond loopback" },
    "allow-host": {
      type: "string",
      multiple: true,
      value: "NAME",
      about: "accepted host name of requests (repeatable; IP addresses and localhost are always accepted)",
    },
    "public-url": {
      type: "string",
      value: "URL",
      about: "address of the server behind a proxy, such as https://tinker.example.com",
    },
    "memory-budget": {
      type: "string",
      value: "SIZE",
      about: "memory for weights, adapters and caches, for example 4GB",
    },
    "max-disk": {
      type: "string",
      value: "SIZE",
      about: "refuse new work when the data folder reaches this size, for example 50GB",
    },
    runs: {
      type: "string",
      multiple: true,
      value: "FOLDER",
      about: "folder of runs to show in the studio too (repeatable)",
    },
    "no-studio": { type: "boolean", about: "serve the API without the studio" },
    strict: { type: "boolean", about: "reject what the hosted service is known to reject" },
    detach: { type: "boolean", about: "run in the background; see tinklet status and tinklet stop" },
    log: { type: "string", choices: ["json", "pretty", "off"], about: "default: pretty on a terminal, else json" },
  },
  examples: ["serve", "serve --detach", "serve --model Qwen/Qwen3-0.6B --port 0"],
  async run(input, context) {
    if (input.flag("detach")) {
      const { serveDetached } = await import("./serve-detached.ts");
      return serveDetached(
        process.argv.slice(2).filter((word) => word !== "--detach"),
        context,
      );
    }
    const { output, signal, dataDir, device, precision } = context;
    const server = await import("@tinklet/server");
    const [host, port, keyFile, budget, maxDisk] = [
      input.text("host"),
      input.integer("port", 0),
      input.text("api-keys"),
      input.text("memory-budget"),
      input.text("max-disk"),
    ];
    const log = input.text("log") as "json" | "pretty" | "off" | undefined;
    for (const model of input.texts("model")) checkLocalModel(model);
    const apiKeys = keyFile === undefined ? undefined : await readKeys(keyFile, server.parseApiKeys);
    const folders = input.texts("runs");
    if (input.flag("no-studio") && folders.length > 0)
      throw new UsageError("--runs needs the studio: leave --no-studio out");
    const studio = input.flag("no-studio") ? undefined : await openStudio(folders);
    output.progress("Opening the model …");
    const models = await server.resolveModels(input.texts("model"), {
      engine: {
        onNotice: engineNotices(output),
        ...omitUndefined({ device, precision }),
        ...(budget === undefined ? {} : { memoryBudgetBytes: bytes(budget, "memory-budget") }),
      },
    });
    const running = await server
      .serve({
        models,
        ...omitUndefined({ dataDir, host, port, apiKeys, log, studio }),
        ...omitUndefined({ publicUrl: input.text("public-url") }),
        attachable: { modelNames: input.texts("model") },
        allowedHosts: input.texts("allow-host"),
        strict: input.flag("strict"),
        ...(maxDisk === undefined ? {} : { maxDiskBytes: bytes(maxDisk, "max-disk") }),
      })
      .catch(async (cause: Error) => {
        throw await asSaid(cause); // a port that is taken, an open door: the server says what to do
      });
    if (output.isJson)
      output.event({
        url: running.url,
        port: running.port,
        public_url: running.publicUrl,
        models: models.map(({ name }) => name),
        device: running.device,
        studio: running.studioUrl() ?? null,
        data_dir: dataDir ?? null,
        retention: running.retention,
      });
    else {
      const outer = running.publicUrl === running.url ? "" : `, behind ${running.publicUrl}`;
      output.line(`Serving ${models.map(({ name }) => name).join(", ")} on ${running.url}${outer}`);
      output.note(`Computes on: ${running.device}`);
      output.note(
        dataDir === undefined
          ? "Stores nothing: all runs and checkpoints are lost when it stops (Ctrl-C)."
          : `Data folder: ${dataDir}. Commands with --local and ServiceClient.local() use this server. Ctrl-C stops it; accepted requests\nare finished after the next start.`,
      );
      if (dataDir !== undefined) output.note(running.retention);
      const link = running.studioUrl();
      if (link !== undefined) output.line(`Studio: ${link}`);
      const names = apiKeys?.map(({ name }) => name).join(", ");
      output.note(
        names === undefined
          ? `\n  export TINKER_BASE_URL=${running.publicUrl} TINKER_API_KEY=${localKey}\n`
          : `\n  export TINKER_BASE_URL=${running.publicUrl} TINKER_API_KEY=…   # the key of ${names}, from whose hash ${keyFile} was made\n`,
      );
    }
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
    output.note("Stopping …");
    await running.close();
    return 0;
  },
};

/** @throws {@link CliError} naming the file. */
async function readKeys<T>(file: string, parse: (text: string) => T): Promise<T> {
  const text = await readFile(file, "utf8").catch((cause: NodeJS.ErrnoException) => {
    throw new CliError(
      cause.code === "ENOENT" ? `${file}: there is no such file` : `${file} could not be read: ${cause.message}`,
      { cause },
    );
  });
  try {
    return parse(text);
  } catch (cause) {
    throw new CliError(`${file}: ${(cause as Error).message}`, { cause });
  }
}

const units: Readonly<Record<string, number>> = { "": 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };

/** `512MB`, `4 GiB`, `8g` in bytes. */
export function bytes(text: string, option: string): number {
  const parts = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*$/i.exec(text);
  if (parts === null) throw new UsageError(`--${option} must be a size such as 4GB, not "${text}"`);
  return Math.round(Number(parts[1]) * (units[(parts[2] ?? "").toLowerCase()] as number));
}
