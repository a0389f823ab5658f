/**
 * A small MCP server over standard input and output, to try `mcpEnv` with: one tool, which counts the things in a shop. Written out, so that
 * it starts at once and needs no package; a server of your own is easier with `McpServer` of `@modelcontextprotocol/sdk`.
 */
import { createInterface } from "node:readline";

const tool = {
  name: "stock",
  description: "How many of a thing the shop has.",
  inputSchema: { type: "object", properties: { item: { type: "string" } }, required: ["item"] },
};

/** A number from 10 to 99 that cannot be guessed from the name. */
function stockOf(item) {
  let hash = 7;
  for (const letter of item) hash = (hash * 31 + letter.charCodeAt(0)) % 9973;
  return 10 + (hash % 90);
}

const text = (value, isError = false) => ({ content: [{ type: "text", text: value }], isError });
const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: "stock", version: "1.0.0" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [tool] }),
  "tools/call": ({ name, arguments: { item } = {} }) =>
    name === tool.name && typeof item === "string" ? text(String(stockOf(item))) : text("stock needs an item", true),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params = {} } = JSON.parse(line);
  if (id === undefined) continue; // a notification
  const known = methods[method];
  const error = { code: -32601, message: `there is no method ${method}` };
  const answer = known === undefined ? { error } : { result: known(params) };
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
}
