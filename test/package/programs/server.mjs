// The packed server with the bundled model on a free port, behind a handler that answers with the page's files under /harness/ and
// notes what the server's own answers have in their headers. Its standard output is one line, the address; it ends with its
// standard input.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { createServer, resolveModels } from "@tinklet/server";

const require = createRequire(import.meta.resolve("@tinklet/server"));
const { createAdaptorServer } = await import(pathToFileURL(require.resolve("@hono/node-server")).href);
const types = {
  html: "text/html; charset=utf-8",
  js: "text/javascript",
  wasm: "application/wasm",
  json: "application/json",
};
const seen = { requests: 0, preflights: 0, corsHeaders: [] };

const server = await createServer({ models: await resolveModels([]), log: "off" });

async function answer(request) {
  const { pathname } = new URL(request.url);
  if (pathname === "/harness/seen") return Response.json(seen);
  if (pathname.startsWith("/harness/")) {
    const name = pathname.slice("/harness/".length) || "index.html";
    if (!/^[\w.-]+$/.test(name)) return new Response(null, { status: 404 });
    const body = await readFile(new URL(`./page/${name}`, import.meta.url)).catch(() => undefined);
    const type = types[name.split(".").at(-1)] ?? "application/octet-stream";
    return body === undefined
      ? new Response(null, { status: 404 })
      : new Response(body, { headers: { "content-type": type } });
  }
  seen.requests++;
  if (request.method === "OPTIONS") seen.preflights++;
  const response = await server.fetch(request);
  for (const name of response.headers.keys()) if (name.startsWith("access-control-")) seen.corsHeaders.push(name);
  return response;
}

const socket = createAdaptorServer({ fetch: answer });
socket.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${socket.address().port}`));
process.stdin.resume().on("end", async () => {
  await server.close();
  process.exit(0);
});
