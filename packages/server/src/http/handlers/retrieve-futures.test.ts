/** One long poll for all samples of a sampling session, and cancellation of many. */
import { afterEach, describe, expect, it } from "vitest";
import { baseModel, gateway, TestServer } from "../../testing/test-server.ts";

let server: TestServer;
afterEach(() => server.close());

const samplerOf = async (): Promise<string> => {
  const made = await server.post("create_sampling_session", {
    session_id: await server.session(),
    sampling_session_seq_id: 0,
    base_model: baseModel,
  });
  return made.json.sampling_session_id as string;
};
const ask = (sampler: string, seq: number, params: object = {}) =>
  server.post("asample", {
    prompt: { chunks: [{ type: "encoded_text", tokens: [1, 2] }] },
    sampling_params: { max_tokens: 2, seed: seq, ...params },
    sampling_session_id: sampler,
    seq_id: seq,
  });
const poll = (sampler: string, cursor: number, fields: object = {}) =>
  server.post("retrieve_futures", {
    target: { type: "sampling_session", sampling_session_id: sampler, cloned_sampler_id: 0 },
    prev_cursor: cursor,
    ...fields,
  });

describe("retrieve_futures", () => {
  it("returns each finished sample once, with the size of its result", async () => {
    server = await TestServer.open();
    const sampler = await samplerOf();
    const first = await ask(sampler, 0);
    await server.sampleResult(first);
    const failed = await ask(sampler, 1, { max_tokens: 0 });
    const answer = await poll(sampler, 0);
    expect(answer.json.completions).toEqual([{ state: "failed", request_id: failed.json.request_id }]); // the other one was already retrieved
    const waiting = poll(sampler, answer.json.cursor);
    const third = await ask(sampler, 2);
    const { completions, cursor } = (await waiting).json;
    const { bytes } = await server.retrieve(third.json.request_id);
    expect(completions).toEqual([
      {
        state: "finished",
        request_id: third.json.request_id,
        response_payload_uncompressed_size: bytes.byteLength,
      },
    ]);
    const idle = await poll(sampler, cursor, { timeout: 0, retrieved_request_ids: [third.json.request_id, "none"] });
    expect(idle.json).toEqual({ completions: [], cursor });
  });

  it("returns a finished sample again when the client retries it", async () => {
    server = await TestServer.open();
    const sampler = await samplerOf();
    const { cursor } = (await poll(sampler, 0, { timeout: 0 })).json;
    const sent = await ask(sampler, 0);
    const told = await poll(sampler, cursor);
    expect(told.json.completions).toHaveLength(1);
    const again = await ask(sampler, 0);
    expect(again.json.request_id).toBe(sent.json.request_id);
    const retold = await poll(sampler, told.json.cursor);
    expect(retold.json.completions[0].request_id).toBe(sent.json.request_id);
  });

  it("many samples (SAMPLES=10000: as many) take at most 1.1 retrievals each, and no retrieval is answered with try_again", async () => {
    server = await TestServer.open();
    const sampler = await samplerOf();
    const total = Number(process.env["SAMPLES"] ?? 2000);
    let cursor = 0;
    let polls = 0;
    const asked = (async () => {
      for (let seq = 0; seq < total; seq += 500) {
        await Promise.all(Array.from({ length: 500 }, (_, i) => ask(sampler, seq + i)));
      }
    })();
    const over = new Set<string>();
    while (over.size < total) {
      const waiting = poll(sampler, cursor);
      polls++;
      const answer = await waiting;
      cursor = answer.json.cursor;
      for (const { request_id, state } of answer.json.completions) {
        expect(state).toBe("finished");
        expect(over.has(request_id)).toBe(false);
        over.add(request_id);
      }
    }
    await asked;
    for (const id of over) {
      const { headers } = await server.retrieve(id);
      expect(headers.get("content-type")).toContain("protobuf");
    }
    expect((polls + over.size) / total).toBeLessThanOrEqual(1.1);
  }, 120_000);
});

describe("cancel_future", () => {
  it("of 1,000 of 2,000 samples ends them with a result, and the others continue", async () => {
    const open = gateway();
    const drawn: number[] = [];
    server = await TestServer.open({
      engine: {
        beforeCall: () => open.promise,
        onSample: ({ params }) => void drawn.push(params?.seed ?? -1),
      },
    });
    const sampler = await samplerOf();
    const sent = await Promise.all(Array.from({ length: 2000 }, (_, seq) => ask(sampler, seq)));
    const cancelled = new Set(sent.filter((_, seq) => seq % 2 === 0).map(({ json }) => json.request_id as string));
    await Promise.all([...cancelled].map((id) => server.post("cancel_future", { request_id: id })));
    const told = await Promise.all([...cancelled].map((id) => server.retrieve(id)));
    expect(told.every(({ json }) => json?.error === "The sample was cancelled by its client.")).toBe(true);
    open.resolve();
    const results = await Promise.all(sent.filter((_, seq) => seq % 2 === 1).map((each) => server.sampleResult(each)));
    expect(results.every(({ sequences }) => sequences[0]!.tokens.length === 2)).toBe(true);
    expect(drawn).toHaveLength(1000);
    expect(drawn.every((seed) => seed % 2 === 1)).toBe(true);
  }, 60_000);
});
