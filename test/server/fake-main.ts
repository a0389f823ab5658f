/**
 * A server over the fake engine, or a real one, as a process of its own, for drills and benchmarks. Options come as one JSON argument; the
 * address goes to standard output. `kill` names a point of a request's life and how often it is passed before the process
 * kills itself there, without any farewell.
 */

import { resolveModels } from "../../packages/server/src/models.ts";
import { serve } from "../../packages/server/src/serve.ts";
import { fakeEngine } from "../../packages/server/src/testing/fake-engine.ts";
import { watchLoop } from "./loop-delay.ts";

interface Options {
  readonly dataDir?: string;
  readonly port?: number;
  /** A model's folder: the real engine on it, instead of the fake one. */
  readonly model?: string;
  /** How long a training call of the fake engine takes. */
  readonly callMs?: number;
  readonly kill?: { readonly point: string; readonly after: number };
  readonly log?: "json" | "off";
  readonly limits?: Record<string, number>;
  /** Print on exit how long the event loop was held up. */
  readonly watchLoop?: boolean;
}

const options = JSON.parse(process.argv[2] ?? "{}") as Options;
const fake = {
  name: "test/model",
  open: async () =>
    fakeEngine({
      beforeCall: async (name) => {
        if (options.callMs === undefined || options.callMs === 0) return;
        if (name === "forwardBackward" || name === "optimStep") await new Promise((r) => setTimeout(r, options.callMs));
      },
    }),
};
let passed = 0;
const running = await serve({
  dataDir: options.dataDir,
  port: options.port ?? 0,
  log: options.log ?? "off",
  limits: options.limits ?? {},
  models: options.model === undefined ? [fake] : await resolveModels([`test/model=${options.model}`]),
  ...(options.kill === undefined
    ? {}
    : {
        onPoint: (point: string) => {
          if (point === options.kill?.point && ++passed > options.kill.after) process.kill(process.pid, "SIGKILL");
        },
      }),
});
const report = options.watchLoop === true ? watchLoop() : undefined;
process.stdout.write(`${running.url}\n`);
const stop = () =>
  void running.close().then(() => {
    if (report !== undefined) process.stdout.write(`${JSON.stringify(report())}\n`);
    process.exit(0);
  });
process.on("SIGTERM", stop);
process.on("SIGINT", stop);
