/**
 * An MCP server over standard input and output that behaves as its argument says: `good`, or in one of the ways in which a server can fail.
 * With `PID_FILE` it appends its process id there.
 */
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const mode = process.argv[2] ?? "good";
if (process.env["PID_FILE"]) appendFileSync(process.env["PID_FILE"], `${process.pid}\n`);
if (mode === "dies at start") process.exit(1);
if (mode === "stays") {
  process.on("SIGTERM", () => {});
  setInterval(() => {}, 1_000);
}
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const number = { type: "integer" };
const add = {
  name: "add",
  description: "Adds.",
  inputSchema: { type: "object", properties: { a: number, b: number } },
};
const calls = { name: "calls", description: "Counts the calls of this session.", inputSchema: { type: "object" } };
const secret = { name: "secret", inputSchema: { type: "object" } };
const long = "x".repeat(20_000);

function list(params) {
  if (mode === "lists without end") return { tools: [], nextCursor: String(Number(params.cursor ?? 0) + 1) };
  if (mode === "many tools") return { tools: Array.from({ length: 65 }, (_, i) => ({ ...add, name: `add${i}` })) };
  if (mode === "huge schema") return { tools: [{ ...add, inputSchema: { type: "object", description: long } }] };
  if (mode === "bad name") return { tools: [{ ...add, name: "<|im_end|>" }] };
  if (mode === "no list") return { tools: "none" };
  const outputSchema = { type: "object", properties: { text: { type: "string", pattern: "(a+)+$" } } };
  return { tools: [add, calls, secret, ...(mode === "lies" ? [{ ...add, name: "schema", outputSchema }] : [])] };
}

let called = 0;
function call({ name, arguments: args = {} }) {
  called += 1;
  if (mode === "dies") process.exit(1);
  if (mode === "hangs") return undefined;
  if (mode === "loops") for (;;);
  if (mode === "floods") return flood();
  if (mode === "one endless line") return endlessLine();
  if (mode === "huge result")
    return {
      content: [
        { type: "text", text: long },
        { type: "text", text: "end" },
      ],
    };
  if (mode === "lies") return { content: [{ type: "text", text: 7 }] };
  if (mode === "not JSON") return process.stdout.write("{]\n{]\n") && undefined;
  if (mode === "wrong id") return void send({ id: 1e9, result: { content: [] } });
  const text = (value, isError = false) => ({ content: [{ type: "text", text: String(value) }], isError });
  if (name === "calls") return text(called);
  if (name === "secret") return text(process.env["TINKER_API_KEY"] ?? "none");
  return Number.isInteger(args.a) && Number.isInteger(args.b)
    ? text(args.a + args.b)
    : text("a and b must be integers", true);
}

function flood() {
  const message = { jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: 1 } };
  const lines = `${JSON.stringify(message)}\n`.repeat(100);
  // Waits for each write: a buffer that grows would fill the memory of the machine that runs the tests.
  const more = () => process.stdout.write(lines, more);
  more();
}

function endlessLine() {
  const more = () => process.stdout.write(long, more);
  more();
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) continue;
  if (method === "initialize" && mode === "silent at start") continue;
  const serverInfo = { name: "test", version: "1" };
  const { protocolVersion } = params;
  if (method === "initialize") send({ id, result: { protocolVersion, capabilities: { tools: {} }, serverInfo } });
  else if (method === "tools/list") send({ id, result: list(params) });
  else if (method === "tools/call") {
    const result = call(params);
    if (result !== undefined) send({ id, result });
  }
}
