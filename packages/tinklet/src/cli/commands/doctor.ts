/** `doctor`: checks this machine, the packages, the key and the server, each with a hint, and runs a training step. */

import { mkdir, statfs } from "node:fs/promises";
import { createRequire } from "node:module";
import { freemem, totalmem } from "node:os";
import { bundledModel } from "@tinklet/models/config";
import { hasCredentialsFile, resolveBaseUrl, storedKey } from "@tinklet/sdk/credentials";
import { omitUndefined } from "@tinklet/wire/options";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { version } from "../main.ts";
import { bundledModelFolder } from "../model.ts";
import { explain } from "../output/explain.ts";
import { formatSize } from "../output/format.ts";
import type { Input } from "../parse.ts";

interface Finding {
  readonly status: "ok" | "warning" | "error";
  readonly detail: string;
  readonly hint?: string;
}

const marks = { ok: ["✓", "green"], warning: ["!", "yellow"], error: ["✗", "red"] } as const;
const leastNode = [20, 19] as const;
const roomyBytes = 1024 ** 3;

export const doctor: Command = {
  usage: "doctor [--skip-training]",
  about: "Checks this machine, the packages, the key and the server, and trains one step locally.",
  options: { "skip-training": { type: "boolean", about: "no training step" } },
  async run(input, context) {
    const { output } = context;
    context.showsEngineNotices = false; // the check "Runtime" reports the same
    const checks: readonly (readonly [string, () => Promise<Finding>])[] = [
      ["Node", node],
      ["Packages", packages],
      ["Runtime", runtime],
      ["Device", device],
      ["Memory", memory],
      ["Disk", () => disk(context)],
      ["Key", () => key(input, context)],
      ["Server", () => server(input, context)],
      ...(input.flag("skip-training") ? [] : [["Training step", () => trainingStep(context)] as const]),
    ];
    const findings: ({ readonly name: string } & Finding)[] = [];
    for (const [name, check] of checks) {
      output.progress(`${name} …`);
      const finding = await check().catch((error: unknown): Finding => {
        context.signal.throwIfAborted();
        const { message, details = [] } = explain(error);
        const hint = details.find((line) => line.startsWith("Hint: "))?.slice(6);
        return { status: "error", detail: message, ...omitUndefined({ hint }) };
      });
      findings.push({ name, ...finding });
      if (output.isJson) continue;
      const [mark, colour] = marks[finding.status];
      output.line(`${output.style(mark, colour)} ${name.padEnd(14)} ${finding.detail}`);
      if (finding.hint !== undefined) output.line(`  ${" ".repeat(14)} ${output.style(finding.hint, "dim")}`);
    }
    if (output.isJson) output.result({ json: { version: version(), checks: findings }, columns: [], rows: [] });
    return findings.some(({ status }) => status === "error") ? 1 : 0;
  },
};

async function node(): Promise<Finding> {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const [least, leastMinor] = leastNode;
  const fine = major > least || (major === least && minor >= leastMinor);
  const detail = `${process.version} on ${process.platform} ${process.arch}`;
  return fine
    ? { status: "ok", detail }
    : { status: "error", detail, hint: `Node ${leastNode.join(".")} or newer is needed.` };
}

const found = (name: string): string | undefined => {
  try {
    const require = createRequire(import.meta.url);
    return (require(`${name}/package.json`) as { version: string }).version;
  } catch {
    return undefined;
  }
};

async function packages(): Promise<Finding> {
  const names = ["@tinklet/sdk", "@tinklet/cookbook", "@tinklet/server", "@tinklet/base-model"];
  const missing = names.filter((name) => found(name) === undefined);
  const detail = [
    `tinklet ${version()}`,
    ...names.filter((name) => !missing.includes(name)).map((name) => `${name} ${found(name)}`),
  ].join(", ");
  if (missing.length === 0) return { status: "ok", detail };
  return { status: "warning", detail, hint: `The installation lacks ${missing.join(", ")}: npm install tinklet` };
}

/** Loads the runtime as the engine does, because an installed package may still fail to load. */
async function runtime(): Promise<Finding> {
  const { findRuntime } = await import("@tinklet/server");
  const { name, reason, hint } = await findRuntime();
  return name === "native"
    ? { status: "ok", detail: "onnxruntime-node, native" }
    : {
        status: "warning",
        detail: `WebAssembly, about four times slower: onnxruntime-node cannot be loaded (${reason})`,
        ...(hint === undefined ? {} : { hint: `Everything works on it; ${hint}` }),
      };
}

/** The GPUs that `--device` can use; a GPU that lacks software is a warning with the line that installs it. */
async function device(): Promise<Finding> {
  const { findDevices } = await import("@tinklet/server");
  const devices = await findDevices();
  const usable = devices.find(({ reason, isHardware }) => reason === undefined && isHardware);
  if (usable !== undefined) {
    const free = usable.freeBytes === undefined ? "" : `, ${formatSize(usable.freeBytes)} free`;
    return { status: "ok", detail: `${usable.name} (${usable.kind}${free}): use it with --device ${usable.kind}` };
  }
  const repairable = devices.find(({ name, reason }) => name !== undefined && reason !== undefined);
  if (repairable !== undefined) {
    const detail = `${repairable.name} cannot be used: ${repairable.reason}`;
    return { status: "warning", detail, ...omitUndefined({ hint: repairable.hint }) };
  }
  const reasons = devices.map(({ kind, reason, name }) => `${kind}: ${reason ?? `${name}, not known to be hardware`}`);
  return { status: "ok", detail: `CPU (${reasons.join("; ")})` };
}

async function memory(): Promise<Finding> {
  const detail = `${formatSize(freemem())} free of ${formatSize(totalmem())}`;
  return freemem() >= roomyBytes
    ? { status: "ok", detail }
    : { status: "warning", detail, hint: "Local training needs about 1 GB." };
}

async function disk({ dataDir }: Context): Promise<Finding> {
  if (dataDir === undefined) return { status: "ok", detail: "not used: the data folder is memory" };
  await mkdir(dataDir, { recursive: true });
  const { bavail, bsize } = await statfs(dataDir);
  const detail = `${formatSize(bavail * bsize)} free in ${dataDir}`;
  return bavail * bsize >= roomyBytes
    ? { status: "ok", detail }
    : { status: "warning", detail, hint: "Checkpoints need space; choose another disk with --data-dir." };
}

async function key(input: Input, context: Context): Promise<Finding> {
  if (context.isLocal) return { status: "ok", detail: "not needed with --local" };
  const named = input.text("api-key") ?? process.env["TINKER_API_KEY"] ?? "";
  if (named === "" && process.env["TINKER_CREDENTIAL_CMD"])
    return { status: "ok", detail: "made by TINKER_CREDENTIAL_CMD" };
  const used = named === "" ? await keyOfLogin(input) : named;
  if (used === undefined) {
    const hint = "Set TINKER_API_KEY or store a key (npx tinklet auth login) for the hosted service, or add --local.";
    return { status: "warning", detail: "none", hint };
  }
  const fine = used.startsWith("tml-") || used.split(".").length === 3;
  const source = named === "" ? ", stored by auth login" : "";
  const detail = `${used.slice(0, 4)}… (${used.length} characters${source})`;
  return fine ? { status: "ok", detail } : { status: "error", detail, hint: "Keys begin with tml-." };
}

/** The key that `auth login` stored for this server. @throws TinkerError when keys are stored for other servers only */
async function keyOfLogin(input: Input): Promise<string | undefined> {
  if (!hasCredentialsFile()) return undefined;
  return storedKey(resolveBaseUrl(input.text("base-url")));
}

async function server(input: Input, context: Context): Promise<Finding> {
  if (
    !context.isLocal &&
    !process.env["TINKER_API_KEY"] &&
    !process.env["TINKER_CREDENTIAL_CMD"] &&
    input.text("api-key") === undefined &&
    (await keyOfLogin(input).catch(() => "of another server")) === undefined
  ) {
    return { status: "warning", detail: "skipped: there is no key" };
  }
  const service = await context.service();
  const startMs = performance.now();
  const { supportedModels } = await service.getServerCapabilities({
    signal: context.signal,
    maxRetries: 1,
    timeoutMs: 10_000,
  });
  const names = supportedModels.map(({ modelName }) => modelName);
  const shown = names.length > 6 ? `${names.slice(0, 6).join(", ")} and ${names.length - 6} more` : names.join(", ");
  return { status: "ok", detail: `${service.baseUrl} in ${Math.round(performance.now() - startMs)} ms: ${shown}` };
}

/** One training step of the bundled model, on a temporary in-memory server. */
async function trainingStep(context: Context): Promise<Finding> {
  const folder = await bundledModelFolder();
  const { Datum, ModelInput, loadTokenizer } = await import("@tinklet/sdk");
  const startMs = performance.now();
  const service = await context.startInMemory([`${bundledModel}=${folder}`]);
  const openMs = performance.now() - startMs;
  const tokens = (await loadTokenizer(folder)).encode("The quick brown fox jumps over the lazy dog.");
  const datum = new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: { target_tokens: tokens.slice(1), weights: tokens.slice(1).map(() => 1) },
  });
  const trainer = await service.createLoraTrainingClient({
    name: "doctor",
    baseModel: bundledModel,
    rank: 8,
    seed: 0,
    signal: context.signal,
  });
  context.output.progress("Training step …");
  const before = await trainer.step([datum], "cross_entropy", { learningRate: 1e-2 });
  const stepMs = performance.now() - startMs - openMs;
  const after = await trainer.forward([datum], "cross_entropy");
  // The API returns sums over tokens; the report shows means.
  const [from, to] = [before.loss, after.loss].map((sum = Number.NaN) => sum / (tokens.length - 1)) as [number, number];
  const detail = `loss per token ${from.toFixed(2)} → ${to.toFixed(2)}; model open in ${Math.round(openMs)} ms, first step in ${Math.round(stepMs)} ms`;
  return to < from
    ? { status: "ok", detail }
    : { status: "error", detail, hint: "The loss must fall; please report this with the output of doctor --json." };
}
