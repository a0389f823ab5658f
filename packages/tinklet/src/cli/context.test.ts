// Routes of Tinklet's own are asked with the key, which must not go anywhere else.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import { Context } from "./context.ts";
import { Output } from "./output.ts";
import { Input } from "./parse.ts";

const servers: Server[] = [];
async function listen(handler: Parameters<typeof createServer>[1]): Promise<string> {
  const server = createServer(handler as never);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

it.each([302, 307, 308])("the key does not follow a redirect (%i) to another origin", async (status) => {
  const strangers: unknown[] = [];
  const elsewhere = await listen((request, response) => {
    strangers.push(request.headers["x-api-key"]);
    response.end("{}");
  });
  const server = await listen((_, response) =>
    response.writeHead(status, { location: `${elsewhere}/api/v1/tinklet/x` }).end(),
  );
  const input = new Input({ "base-url": server, "api-key": "tml-secret" }, []);
  const context = new Context(input, new Output({ format: "table", quiet: true, color: false }));
  try {
    expect((await context.ask("x")).ok).toBe(false);
    expect(strangers).toEqual([]);
  } finally {
    await context.close();
  }
});
