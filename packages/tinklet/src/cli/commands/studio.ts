/** `studio`: shows run folders in a browser until Ctrl-C. The same page as that of `serve`, on a server without a model. */
import { omitUndefined } from "@tinklet/wire/options";
import type { Command } from "../command.ts";
import { asSaid } from "../context.ts";
import { openStudio } from "../studio.ts";

export const studio: Command = {
  usage: "studio [FOLDER...] [--port N]",
  about:
    "Shows run folders of this and of the Python cookbook in a browser: metrics, configuration, rollouts.\n" +
    "The page updates while a run is written. For the runs of a server, see tinklet serve.",
  arguments: ["FOLDER..."],
  options: { port: { type: "string", value: "N", about: "0 picks a free port (default 8472)" } },
  examples: ["studio runs", "studio runs/a ../python/runs/b"],
  async run(input, { output, signal }) {
    const folders = input.positionals.length === 0 ? ["runs"] : input.positionals;
    const server = await import("@tinklet/server");
    const page = await openStudio(folders);
    const port = input.integer("port", 0) ?? 8472;
    const running = await server
      .serve({ models: [], log: "off", port, ...omitUndefined({ studio: page }) })
      .catch(async (cause: Error) => {
        throw await asSaid(cause);
      });
    const link = running.studioUrl();
    if (output.isJson) output.event({ url: running.url, port: running.port, studio: link ?? null, folders });
    else {
      output.line(`Studio: ${link}`);
      output.note(`Shows ${folders.join(", ")}. Ctrl-C stops it.`);
    }
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
    await running.close();
    return 0;
  },
};
