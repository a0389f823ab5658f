// `node test/interop/conversation/record.mjs [--check] [--newest]`: runs program.py with the official Python SDK 0.25.0, or
// program_newer.py with 0.36.0, against the recording stub and keeps its requests in
// test/fixtures/conversation/python-VERSION.json, which the test suite compares this SDK with.
// With --check nothing is written: a recording that differs from the kept one is an error. Build first: `npm run build`.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { listen, StubServer } from "../../../packages/sdk/dist/testing/index.js";
import { decodeForwardBackwardRequest } from "../../../packages/wire/dist/index.js";
import { entry, ordered } from "../../integration/conversation/log.mjs";
import { stubConfig } from "../../integration/conversation/program.mjs";
import { ensureVenv } from "../venv.mjs";
import { oracles, withEverything } from "../versions.mjs";

const newest = process.argv.includes("--newest");
const oracle = newest ? oracles.at(-1) : oracles[0];
const fixture = new URL(`../../fixtures/conversation/python-${oracle.version}.json`, import.meta.url);
// Custom losses of the official SDK need PyTorch. TINKER_PYTHON names an interpreter that already has both.
const python = process.env.TINKER_PYTHON ?? ensureVenv(...withEverything(oracle));

const log = [];
const stub = new StubServer({
  config: stubConfig,
  onRequest: (request) => log.push(entry(request, decodeForwardBackwardRequest)),
});
const listener = await listen(stub);
const child = spawn(
  python,
  [fileURLToPath(new URL(newest ? "program_newer.py" : "program.py", import.meta.url)), listener.url],
  {
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, TINKER_TELEMETRY: "0" },
  },
);
const status = await new Promise((resolve) => child.on("exit", resolve));
await listener.close();
if (status !== 0) throw new Error(`program.py ended with status ${status}`);

const kept = log.filter(({ path }) => path !== "/session_heartbeat");
if (process.argv.includes("--check")) {
  const before = JSON.stringify(ordered(JSON.parse(readFileSync(fixture, "utf8"))));
  if (before !== JSON.stringify(ordered(kept)))
    throw new Error("the official SDK's conversation differs from the kept one");
  console.log(`conversation: ${kept.length} requests, as kept`);
} else {
  writeFileSync(fixture, `[\n${kept.map((request) => JSON.stringify(request)).join(",\n")}\n]\n`);
  console.log(`conversation: ${kept.length} requests kept`);
}
