/** Encoding of the sample fields that releases 0.29 to 0.33 added; tests of the engine check their values. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { baseModel, TestServer } from "../../testing/test-server.ts";

let server: TestServer;
let sampler: string;
let seq = 0;
beforeAll(async () => {
  server = await TestServer.open();
  const made = await server.post("create_sampling_session", {
    session_id: await server.session(),
    sampling_session_seq_id: 0,
    base_model: baseModel,
  });
  sampler = made.json.sampling_session_id as string;
});
afterAll(() => server.close());

const ask = (fields: object, params: object = {}) =>
  server.post("asample", {
    prompt: { chunks: [{ type: "encoded_text", tokens: [4, 5, 6, 7] }] },
    sampling_params: { max_tokens: 2, seed: 1, ...params },
    sampling_session_id: sampler,
    seq_id: seq++,
    ...fields,
  });
const failure = async (fields: object): Promise<string> => (await server.result(ask(fields))).error as string;

describe("a sample's options", () => {
  it("target_prompt_logprobs are returned in the shape of the request, 0 for positions without targets", async () => {
    const target = { data: [9, -1, -1, -1, 8, 9], dtype: "int64", shape: [3, 2] };
    const { targetPromptLogprobs } = await server.sampleResult(ask({ target_prompt_logprobs: target }));
    expect(targetPromptLogprobs).toMatchObject({ dtype: "float32", shape: [3, 2], sparseCrowIndices: undefined });
    expect([...targetPromptLogprobs!.values]).toEqual([-1009, 0, 0, 0, -3008, -3009]);
  });

  it("target_prompt_logprobs stay sparse", async () => {
    const target = {
      data: [9, 8, 7],
      dtype: "int64",
      shape: [3, 5],
      sparse_crow_indices: [0, 0, 1, 3],
      sparse_col_indices: [4, 0, 3],
    };
    const { targetPromptLogprobs } = await server.sampleResult(ask({ target_prompt_logprobs: target }));
    expect(targetPromptLogprobs).toMatchObject({
      shape: [3, 5],
      sparseCrowIndices: BigInt64Array.of(0n, 0n, 1n, 3n),
      sparseColIndices: BigInt64Array.of(4n, 0n, 3n),
    });
    expect([...targetPromptLogprobs!.values]).toEqual([-2009, -3008, -3007]);
  });

  it("topk_sample_logprobs and prompt_alt_tokens_k are returned as tables", async () => {
    const result = await server.sampleResult(ask({ topk_sample_logprobs: 3, prompt_alt_tokens_k: 2, num_samples: 2 }));
    for (const { topkSampledLogprobs } of result.sequences) {
      expect(topkSampledLogprobs).toMatchObject({ k: 3, length: 2 });
    }
    expect(result.promptAltTokens?.tokens).toMatchObject({ dtype: "int64", shape: [3, 2] });
    expect(result.promptAltTokens?.logprobs).toMatchObject({ dtype: "float32", shape: [3, 2] });
    const asked = await ask({ topk_sample_logprobs: 3, prompt_alt_tokens_k: 2 });
    const plain = await server.post("retrieve_future", { request_id: asked.json.request_id }); // as JSON
    expect(plain.json.sequences[0].topk_logprobs[0][0]).toEqual([0, -1]);
    expect(plain.json.prompt_alt_tokens.tokens.shape).toEqual([3, 2]);
  });

  it("prompt_logprobs_last_n leaves earlier positions empty", async () => {
    const result = await server.sampleResult(ask({ prompt_logprobs: true, prompt_logprobs_last_n: 2 }));
    expect(result.promptLogprobs?.map((value) => value === null)).toEqual([true, true, false, false]);
  });

  it("an invalid field is reported by its name through the future", async () => {
    const target = (data: number[], shape: number[]) => ({
      target_prompt_logprobs: { data, dtype: "int64", shape },
    });
    expect(await failure({ topk_sample_logprobs: 65 })).toMatch(/^topk_sample_logprobs: 65 is not between 0 and 64/);
    expect(await failure({ prompt_alt_tokens_k: -1 })).toMatch(/^prompt_alt_tokens_k: -1/);
    expect(await failure({ prompt_logprobs_last_n: 2 })).toMatch(/needs prompt_logprobs/);
    expect(await failure({ prompt_logprobs: true, prompt_logprobs_last_n: 4 })).toMatch(/not between 1 and 3/);
    expect(await failure(target([1, 2], [2, 1]))).toMatch(/3 rows for a prompt of 4 tokens.*shape \[2, 1\]/);
    expect(await failure(target([-1, -1, -1], [3, 1]))).toMatch(/must contain at least one token id/);
    expect(await failure(target([1, -2, 3], [3, 1]))).toMatch(/-2 is not a token id/);
    expect(await failure(target(new Array(3 * 100).fill(1), [3, 100]))).toMatch(
      /must have at most 256 cells \(64 per prompt token\)/,
    );
    const floats = { target_prompt_logprobs: { data: [1, 2, 3], dtype: "float32", shape: [3, 1] } };
    expect(await failure(floats)).toMatch(/must have dtype int64/);
  });

  it("no field of the newest client is logged as unknown", async () => {
    await server.sampleResult(
      ask({
        topk_sample_logprobs: 0,
        prompt_alt_tokens_k: 0,
        record_stability_info: false,
        prompt_logprobs: true,
        prompt_logprobs_last_n: 1,
        type: "sample",
      }),
    );
    expect(server.logged.filter(({ event }) => event === "request_field.ignored")).toEqual([]);
  });

  it("record_stability_info is accepted without effect and without a log line", async () => {
    const drawn = async (fields: object) => {
      const { sequences } = await server.sampleResult(ask(fields, { seed: 5 }));
      return sequences[0]!.tokens;
    };
    expect(await drawn({ record_stability_info: true })).toEqual(await drawn({}));
    expect(server.logged.filter(({ event }) => event === "request_field.ignored")).toEqual([]);
  });

  it("tinklet_constraint reaches the engine, also from the store; contradictory ones are refused", async () => {
    const asked: unknown[] = [];
    const own = await TestServer.open({ engine: { onSample: ({ params }) => asked.push(params?.constraint) } });
    onTestFinished(() => own.close());
    const sample = (tinklet_constraint: unknown, padding = "") =>
      own.post("asample", {
        base_model: baseModel,
        prompt: { chunks: [{ type: "encoded_text", tokens: [4, 5] }] },
        sampling_params: { max_tokens: 2, seed: 1 },
        tinklet_constraint,
        padding,
      });
    const schema = { type: "object", properties: { aKey: { type: ["string", "null"] } } };
    await own.sampleResult(sample({ type: "json_schema", schema }));
    await own.sampleResult(sample({ type: "json_object" }));
    await own.sampleResult(sample(undefined));
    await own.sampleResult(sample(null));
    expect(asked).toEqual([{ type: "json_schema", schema }, { type: "json_object" }, undefined, undefined]);
    for (const wrong of [{ type: "json_schema" }, { type: "json_object", schema }, { type: "regex" }, "json", []]) {
      const { status, json } = await sample(wrong);
      expect([status, JSON.stringify(json)]).toEqual([422, expect.stringContaining("tinklet_constraint")]);
    }
    expect((await sample({ type: "json_object" }, " ".repeat(5_000_000))).status).toBe(413);
    expect(asked).toHaveLength(4);
    await own.sampleResult(sample(undefined, " ".repeat(5_000_000))); // too large with a constraint, accepted without
    expect((await own.post("client/config", { sdk_version: "0.36.0" })).json.tinklet_extensions).toContain(
      "constraint",
    );
  });

  it("tinklet_constraint is neither announced nor accepted in strict mode", async () => {
    const strict = await TestServer.open({ strict: true });
    onTestFinished(() => strict.close());
    const { status, json } = await strict.post("asample", {
      base_model: baseModel,
      prompt: { chunks: [{ type: "encoded_text", tokens: [4, 5] }] },
      sampling_params: { max_tokens: 2 },
      tinklet_constraint: { type: "json_object" },
    });
    expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining("tinklet_constraint")]);
    const { tinklet_extensions } = (await strict.post("client/config", { sdk_version: "0.36.0" })).json;
    expect(tinklet_extensions).not.toContain("constraint");
  });

  it("stop: [] reaches the engine unchanged", async () => {
    const { sequences } = await server.sampleResult(ask({}, { stop: [] }));
    expect(sequences[0]!.stopReason).toBe("length");
  });
});

describe("optimizers and losses that this server does not have", () => {
  it("are refused by name", async () => {
    const session = await server.session();
    const create = await server.post("create_model", {
      session_id: session,
      model_seq_id: 0,
      base_model: baseModel,
      lora_config: { rank: 4 },
      optimizer_config: { type: "dimuon", version: 1 },
    });
    expect([create.status, create.json.detail ?? JSON.stringify(create.json)]).toEqual([
      400,
      expect.stringContaining("dimuon"),
    ]);
    const model = await server.model(session, { seq: 1 });
    const step = await server.post("optim_step", {
      model_id: model,
      seq_id: 1,
      optimizer_params: { type: "dimuon", learning_rate: 1e-3 },
    });
    expect([step.status, JSON.stringify(step.json)]).toEqual([400, expect.stringContaining("dimuon")]);
    const pass = await server.result(server.pass(model, 2, { lossFn: "stable_reinforce" })); // the number of the step is used up
    expect(pass.error).toContain("stable_reinforce");
  });
});
