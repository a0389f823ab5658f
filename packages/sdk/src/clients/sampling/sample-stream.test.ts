import { describe, expect, it } from "vitest";
import { faultsInOrder } from "../../testing/faults.ts";
import { failure, harness } from "../../testing/harness.ts";
import { stubLogprob } from "../../testing/stub-model.ts";
import type { StubOptions } from "../../testing/stub-server.ts";
import type { FetchLike } from "../../transport/exchange.ts";
import type { StreamedToken } from "./sample-stream.ts";
import "@tinklet/models/tokenizer"; // both loaded before the fake clock runs
import "./token-feed.ts";

type Fed = readonly (readonly [number, number, (number | null)?])[];

/** A client of a server with a token feed: each request gets the next of `pages`; the last one repeats. */
async function setup(pages: readonly (Fed | number)[], stub: StubOptions = {}) {
  const asked: string[] = [];
  let next = 0;
  const kit = harness({ ...stub, config: { tinklet_extensions: ["sample_tokens"] } });
  const fetch: FetchLike = async (url, init) => {
    if (!url.includes("/tinklet/samples/")) return kit.stub.fetch(url, init);
    asked.push(url.slice(url.indexOf("/tinklet/")));
    const page = pages[next++];
    if (page === undefined) return new Promise<Response>(() => {});
    if (typeof page === "number") return new Response("{}", { status: page });
    return Response.json({ tokens: page, done: false });
  };
  const { service, run } = harness({ clock: kit.clock }, { fetch, clock: kit.clock });
  const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
  return { ...kit, service, sampler, asked };
}

async function all(stream: AsyncIterable<StreamedToken>): Promise<StreamedToken[]> {
  const tokens: StreamedToken[] = [];
  for await (const token of stream) tokens.push(token);
  return tokens;
}
const options = { samplingParams: { maxTokens: 3 } };
const whole = [4, 5, 6].map((token) => ({ index: 0, token, logprob: stubLogprob(token) }));

describe("a stream", () => {
  it("gives tokens with log-probs while they are drawn, then those that were not shown, then ends with the response", async () => {
    const { sampler, run, asked, stub } = await setup([[[0, 4, -0.25]], [[0, 5, null]]], { sampleMs: 1_000 });
    const stream = sampler.stream([1, 2, 3], options);
    expect(await run(all(stream))).toEqual([
      { index: 0, token: 4, logprob: -0.25 },
      { index: 0, token: 5 },
      { index: 0, token: 6, logprob: stubLogprob(6) },
    ]);
    expect((await stream.response).sequences[0]?.tokens).toEqual([4, 5, 6]);
    expect(asked.slice(0, 3)).toEqual([0, 1, 2].map((n) => `/tinklet/samples/request-0/tokens?after=${n}`));
    expect(stub.callsOf("asample")[0]?.headers["x-tinklet-stream"]).toBe("tokens");
    expect(stub.callsOf("cancelFuture")).toHaveLength(0);
  });

  it("gives everything when the result is there on servers that show nothing, which are never asked", async () => {
    const { service, run, stub } = harness();
    const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
    const stream = sampler.stream([1, 2, 3], { ...options, numSamples: 2 });
    expect(await run(all(stream))).toEqual([...whole, ...whole.map((token) => ({ ...token, index: 1 }))]);
    expect(stub.callsOf("asample")[0]?.headers["x-tinklet-stream"]).toBeUndefined();
  });

  it("continues with the result when the feed fails", async () => {
    const { sampler, run } = await setup([[[0, 4, stubLogprob(4)]], 500], { sampleMs: 1_000 });
    expect(await run(all(sampler.stream([1, 2, 3], options)))).toEqual(whole);
  });

  it("leaving the loop cancels the sample, here and on the server", async () => {
    const dynamicConfig = { sample_cancel_enabled: true };
    const { sampler, run, stub, clock } = await setup([[[0, 4, -1]]], { sampleMs: 1e6, dynamicConfig });
    const stream = sampler.stream([1, 2, 3], options);
    const first = async () => {
      for await (const { token } of stream) return token;
      return undefined;
    };
    expect(await run(first())).toBe(4);
    await import("./abandoned-samples.ts");
    await clock.advance(0);
    expect(stub.callsOf("cancelFuture").map(({ body }) => body)).toMatchObject([{ requestId: "request-0" }]);
    expect(await failure(stream.response)).toMatchObject({ name: "AbortError" });
  });

  it("fails with what the sample fails with, and knows its options", async () => {
    const { sampler, run } = await setup([]);
    expect(await run(failure(all(sampler.stream("x" as never))))).toMatchObject({ field: "prompt" });
    expect(await run(failure(all(sampler.stream([1], { token: 1 } as never))))).toMatchObject({ field: "token" });
  });

  it("gives text where there is a tokenizer, whole characters only", async () => {
    const { service, run } = harness();
    const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
    // 4 is the first half of an é, 5 its second; a space is said only between words.
    const bytes: Record<number, number[]> = { 4: [0xc3], 5: [0xa9], 6: [0x20, 0x61] };
    const decode = (tokens: readonly number[]) =>
      new TextDecoder().decode(Uint8Array.from(tokens.flatMap((token) => bytes[token] ?? []))).replace(/^ /, "");
    const shown = await run(all(sampler.stream([1, 2, 3], { ...options, tokenizer: { decode } })));
    expect(shown.map(({ text }) => text)).toEqual(["", "é", " a"]);
  });

  it("gives each token once when the text ends inside a character", async () => {
    const { service, run } = harness();
    const sampler = await run(service.createSamplingClient({ baseModel: "m" }));
    // 5 is an a and the first byte of an é, 6 the first byte of another one.
    const bytes: Record<number, number[]> = { 4: [0x61], 5: [0x61, 0xc3], 6: [0xc3] };
    const tokenBytes = (token: number) => Uint8Array.from(bytes[token] ?? []);
    const decode = (tokens: readonly number[]) =>
      new TextDecoder().decode(Uint8Array.from(tokens.flatMap((token) => bytes[token] ?? [])));
    for (const tokenizer of [{ decode }, { decode, tokenBytes }]) {
      const shown = await run(all(sampler.stream([1, 2, 3], { ...options, tokenizer })));
      expect(shown.map(({ token }) => token)).toEqual([4, 5, 6]);
      expect(shown.map(({ text }) => text).join("")).toBe(decode([4, 5, 6]));
    }
  });

  it("does not mix two samples: one that was lost and drawn again with other tokens is an error", async () => {
    const lost = faultsInOrder("retrieveFuture", [{ kind: "status", status: 410 }]);
    const { sampler, run, stub } = await setup([[[0, 9, -1]], 410], { sampleMs: 1_000, faults: lost });
    const stream = sampler.stream([1, 2, 3], options);
    expect(await run(failure(all(stream)))).toMatchObject({ name: "APIError", code: "stream_restarted" });
    expect(stub.callsOf("asample")).toHaveLength(2);
    expect((await stream.response).sequences[0]?.tokens).toEqual([4, 5, 6]);
  });

  it("continues a sample that was lost and drawn again with the same tokens", async () => {
    const lost = faultsInOrder("retrieveFuture", [{ kind: "status", status: 410 }]);
    const { sampler, run } = await setup([[[0, 4, stubLogprob(4)]], 410], { sampleMs: 1_000, faults: lost });
    expect(await run(all(sampler.stream([1, 2, 3], options)))).toEqual(whole);
  });
});
