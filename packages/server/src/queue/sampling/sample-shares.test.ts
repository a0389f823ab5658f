/** Fair share between tenants by the cost of their samples: prompt tokens and sampled tokens. */
import { expect, onTestFinished, test } from "vitest";
import { hashApiKey } from "../../http/access/auth.ts";
import { fakeEngine } from "../../testing/fake-engine.ts";
import { baseModel, gateway, TestServer } from "../../testing/test-server.ts";

/** A server whose engine holds every sample until `release` is called. `order` lists the tenants in the order of their engine calls. */
async function open() {
  const engine = fakeEngine({ contextLength: 4096, reply: () => new Array<number>(4000).fill(7) });
  const order: string[] = [];
  let gate = gateway();
  const server = await TestServer.open({
    apiKeys: ["long", "short", "filler"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })),
    models: [
      {
        name: baseModel,
        open: async () => ({
          ...engine,
          sample: async (...args: Parameters<typeof engine.sample>) => {
            const [{ scope }, { signal } = {}] = args;
            order.push(scope!);
            const left = new Promise<void>((resolve) => signal?.addEventListener("abort", () => resolve()));
            await Promise.race([gate.promise, left]);
            await new Promise((resolve) => setImmediate(resolve));
            signal?.throwIfAborted();
            return engine.sample(...args);
          },
        }),
      },
    ],
  });
  onTestFinished(() => server.close());
  const sample = async (tenant: string, promptTokens: number, maxTokens: number) => {
    server.key = `tml-${tenant}`;
    const answer = await server.post("asample", {
      base_model: baseModel,
      prompt: { chunks: [{ type: "encoded_text", tokens: new Array(promptTokens).fill(5) }] },
      sampling_params: { max_tokens: maxTokens },
    });
    return answer.json.request_id as string;
  };
  return {
    server,
    sample,
    order,
    /** Ends the samples on the engine. */
    release: () => gate.resolve(),
    /** Holds later samples. */
    hold: () => {
      gate = gateway();
    },
  };
}
const count = (names: readonly string[], name: string) => names.filter((other) => other === name).length;

test("long replies to short prompts and short replies to long prompts of the same length have the same share", async () => {
  const { release, order, sample } = await open();
  for (let i = 0; i < 300; i++) {
    await sample("long", 1, 200);
    await sample("short", 200, 1);
  }
  release();
  await expect.poll(() => order.length).toBeGreaterThanOrEqual(400);
  const served = order.slice(100, 400); // the first samples fill the engine before any usage is charged
  // Sampled tokens are charged after a sample ends, so the shares may differ by one batch of 32 at each end of the window.
  expect(Math.abs(count(served, "long") - count(served, "short"))).toBeLessThanOrEqual(2 * 32);
});

test("a cancelled sample is charged about as many tokens as others decode in that time", async () => {
  const { server, release, hold, order, sample } = await open();
  const first = await sample("short", 1, 100);
  await server.clock.advance(100); // one token per millisecond
  release();
  expect((await server.retrieve(first)).status).toBe(200);
  hold();
  const longs: string[] = [];
  for (let i = 0; i < 80; i++) {
    longs.push(await sample("long", 1, 4000));
    await sample("short", 1, 100);
  }
  const { length } = order; // the engine runs samples of both tenants, and both have waiting samples
  const begun = count(order, "long");
  expect(begun).toBeGreaterThanOrEqual(16);
  await server.clock.advance(2000);
  server.key = "tml-long";
  for (const id of longs.slice(0, begun)) await server.post("cancel_future", { request_id: id });
  await expect.poll(() => order.length).toBeGreaterThanOrEqual(length + begun);
  expect(count(order.slice(length, length + begun), "short")).toBeGreaterThanOrEqual(begun - 2);
});
