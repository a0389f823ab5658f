// Our client and the conformance kit against SkyRL's Tinker server, on the CPU.
//
//   node test/interop/skyrl/skyrl.mjs --url http://host:8000 [--model NAME]   a server that is running
//   node test/interop/skyrl/skyrl.mjs [--source DIR]                          starts one here, over a tiny model
//
// The second form makes its environment first (see skyrl-server.mjs) and runs the server of that release, or with --source that of a
// checkout of the repository. `--only=group,group` runs a part of the kit, `--json=FILE` keeps the report. Ends with 0 when the runs
// could be made: a peer is described here, not judged.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "../../fixtures/programs/bundle.mjs";
import { startSkyrl, tinyModel } from "./skyrl-server.mjs";

const argument = (name) => {
  const at = process.argv.findIndex((word) => word === `--${name}` || word.startsWith(`--${name}=`));
  if (at < 0) return undefined;
  return process.argv[at].includes("=") ? process.argv[at].slice(name.length + 3) : process.argv[at + 1];
};

const work = mkdtempSync(join(tmpdir(), "tinklet-skyrl-"));
let server;
try {
  const given = argument("url");
  server =
    given === undefined
      ? await startSkyrl({ work, model: tinyModel(work), source: argument("source") })
      : { url: given, stop: () => {} };
  const only = argument("only")?.split(",");
  const options = {
    baseUrl: server.url,
    apiKey: process.env.TINKER_API_KEY ?? "tml-dummy",
    baseModel: argument("model"),
    only,
    json: argument("json"),
  };
  const done = spawnSync(process.execPath, [await bundle("test/interop/skyrl/peer-main.ts"), JSON.stringify(options)], {
    stdio: "inherit",
  });
  process.exitCode = done.status ?? 1;
} finally {
  server?.stop();
  rmSync(work, { recursive: true, force: true });
}
