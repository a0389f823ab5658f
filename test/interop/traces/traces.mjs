// `npm run test:interop -- traces`: exporters of others against the local server. The program of docs/traces.md with the AI SDK and
// OpenTelemetry's JavaScript exporter (protobuf), the same over OTLP's JSON with gzip, and Pydantic AI with OpenTelemetry's Python exporter. Packages
// are installed under .cache/ and .venv/ from their registries. Then answers are corrected and a model is trained on the export.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { createChecks } from "../chat/checks.mjs";
import { installPackages } from "../chat/install-packages.mjs";
import { ensureVenv } from "../venv.mjs";

const key = "tml-chat";
installPackages("traces", [
  "ai@6.0.319",
  "@ai-sdk/openai-compatible@2.0.52",
  "zod@4",
  "@opentelemetry/api@1.9.1",
  "@opentelemetry/sdk-trace-node@2.12.0",
  "@opentelemetry/exporter-trace-otlp-proto@0.223.1",
  "@opentelemetry/exporter-trace-otlp-http@0.223.1",
]);
const python = ensureVenv("traces", [
  "pydantic-ai-slim==2.68.0",
  "opentelemetry-sdk==1.43.0",
  "opentelemetry-exporter-otlp-proto-http==1.43.0",
]);
const folder = join(root, ".cache", "traces");
const [, program] =
  /```ts\n\/\/ app\.mjs\n([\s\S]*?)```/.exec(readFileSync(join(root, "docs/traces.md"), "utf8")) ?? [];
writeFileSync(join(folder, "app.mjs"), program);
// OTLP's JSON form, which the same exporter has under another name.
writeFileSync(join(folder, "app-json.mjs"), program.replace("exporter-trace-otlp-proto", "exporter-trace-otlp-http"));

const server = spawn(process.execPath, [await bundle("test/interop/chat/serve-main.ts")], {
  stdio: ["ignore", "pipe", "inherit"],
});
const checks = createChecks();
try {
  const [url] = await once(createInterface({ input: server.stdout }), "line");
  const api = async (method, path, body) => {
    const response = await fetch(`${url}/api/v1/tinklet/${path}`, {
      method,
      headers: { "x-api-key": key, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return response.json();
  };
  const environment = {
    ...process.env,
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_EXPORTER_OTLP_HEADERS: `x-api-key=${key}`,
    MODEL_URL: `${url}/v1`,
    MODEL_KEY: key,
    MODEL: "scripted",
  };
  const runs = (command, args, env = {}) => {
    const done = spawnSync(command, args, {
      cwd: folder,
      encoding: "utf8",
      env: { ...environment, ...env },
      timeout: 120_000,
    });
    if (done.status !== 0) console.log(done.stderr);
    return done;
  };
  const only = async (what, service) => {
    const { traces } = await api("GET", "traces?limit=200");
    const found = traces.filter(
      (trace) => trace.prompt?.includes(what) && (service === undefined || trace.service === service),
    );
    checks.is(`${what}: one trace`, found.length, 1);
    return found[0] === undefined
      ? undefined
      : { summary: found[0], ...(await api("GET", `traces/${found[0].trace_id}`)) };
  };

  for (const [name, file, env] of [
    ["the AI SDK, protobuf", "app.mjs", {}],
    ["the AI SDK, JSON with gzip", "app-json.mjs", { OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" }],
  ]) {
    const { status, stdout } = runs(process.execPath, [file, `SAY fourteen days (${name})`], {
      OTEL_SERVICE_NAME: "shop",
      ...env,
    });
    checks.is(`${name}: the program of docs/traces.md ends`, [status, stdout.trim()], [0, `fourteen days (${name})`]);
    const trace = await only(`(${name})`);
    const messages = trace?.conversations?.[0]?.turns.map(({ message }) => [message.role, message.content]);
    checks.is(`${name}: its conversation`, messages, [
      ["system", "Answer in one short sentence."],
      ["user", `SAY fourteen days (${name})`],
      ["assistant", `fourteen days (${name})`],
    ]);
    checks.holds(
      `${name}: model, usage`,
      trace?.summary.models[0] === "scripted" && trace.summary.output_tokens > 0,
      trace?.summary,
    );
  }

  const done = runs(python, [join(root, "test/interop/traces/agent.py")], { OTEL_SERVICE_NAME: "agent" });
  checks.is("Pydantic AI: the program ends", done.status, 0);
  const agent = await only("(Pydantic AI)");
  const turns = agent?.conversations?.[0]?.turns.map(({ message }) => message) ?? [];
  checks.is("Pydantic AI: one conversation with a call of a tool and its result", agent?.conversations?.length, 1);
  checks.is(
    "Pydantic AI: its messages",
    turns.map(({ role }) => role),
    ["system", "user", "assistant", "tool", "assistant"],
  );
  checks.is("Pydantic AI: the call", turns[2]?.tool_calls?.[0]?.function, {
    name: "get_weather",
    arguments: '{"city":"a"}',
  });
  checks.is("Pydantic AI: the result", turns[3]?.content, "sunny in a");
  checks.is(
    "Pydantic AI: tools",
    agent?.conversations?.[0]?.tools.map((tool) => tool.function.name),
    ["get_weather"],
  );

  // Corrected answers, exported, are what train reads.
  const { traces } = await api("GET", "traces");
  for (const { trace_id: id } of traces) await api("POST", `traces/${id}/rating`, { answer: "Refunds take 14 days." });
  const { lines } = await api("POST", "traces/export", { format: "sft" });
  checks.is(
    "the export has every trace, corrected",
    lines.map(({ messages }) => messages.at(-1).content),
    traces.map(() => "Refunds take 14 days."),
  );
  writeFileSync(join(folder, "data.jsonl"), lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  const check = spawnSync(
    process.execPath,
    [await bundle("test/interop/traces/read-main.ts"), join(folder, "data.jsonl")],
    { encoding: "utf8" },
  );
  checks.is(
    "train's reader accepts the file, with tools",
    check.stdout.trim(),
    `${lines.length} examples, 1 with tools`,
  );
  if (check.status !== 0) console.log(check.stderr);
  checks.holds("the file exists", existsSync(join(folder, "data.jsonl")), folder);
} finally {
  server.kill("SIGTERM");
}
const { passed, failed } = checks.result();
console.log(`${passed} checks held, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;
