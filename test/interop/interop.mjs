// `npm run test:interop [name…]`: the suites in which the official packages of others and ours meet. Each makes its own virtual
// environment from PyPI; each is a script that exits 0 when all of it held. Runs all of them, then says which failed.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const suites = {
  conversation: ["./conversation/record.mjs", "--check"],
  server: ["./server/server-interop.mjs"],
  cli: ["./cli/cli-interop.mjs"],
  cookbook: ["./cookbook/cookbook-interop.mjs"],
  environments: ["./environments/environments.mjs"],
  loggers: ["./loggers/loggers-interop.mjs"],
  chat: ["./chat/clients.mjs"],
  tools: ["./tools/tools.mjs"],
  ai: ["./ai/sdk.mjs"],
  traces: ["./traces/traces.mjs"],
  templates: ["./templates/compare.mjs"],
  "llama-cpp": ["./llama-cpp/llama-cpp.mjs"],
  peft: ["./torch/archive.mjs"],
};
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in suites));
if (unknown.length > 0) {
  console.error(`no suite named ${unknown.join(", ")}; there are ${Object.keys(suites).join(", ")}`);
  process.exit(2);
}
const results = [];
for (const [name, [file, ...args]] of Object.entries(suites)) {
  const script = fileURLToPath(new URL(file, import.meta.url));
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  console.log(`== ${name}`);
  const { status } = spawnSync(process.execPath, [script, ...args], { stdio: "inherit" });
  results.push({ name, ok: status === 0 });
}
for (const { name, ok } of results) console.log(`${ok ? "ok   " : "FAIL "} ${name}`);
process.exitCode = results.every(({ ok }) => ok) ? 0 : 1;
