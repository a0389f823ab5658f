/** Custom losses: creation, passes that use them, and both after restarts. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Datum, encodeForwardBackwardRequest, ModelInput, TensorData } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Limits } from "../../limits.ts";
import { gateway, TestServer, turnsDuring } from "../../testing/test-server.ts";

const recorded = JSON.parse(
  readFileSync(new URL("../../../../../test/fixtures/custom-losses.json", import.meta.url), "utf8"),
) as { name: string; inputs: unknown[]; graph: { format: number; nodes: unknown[] } }[];
const traced = (name: string) => recorded.find((each) => each.name === name)!;

let server: TestServer;
let folder: string;
/** Awaited before each call of the engine. */
let gate: Promise<void> | undefined;
const open = () => TestServer.open({ dataDir: folder, engine: { beforeCall: () => gate } });
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "custom-loss-"));
  server = await open();
});
afterEach(async () => {
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

const create = (session: string, name: string, seq = 0) => {
  const { inputs, graph } = traced(name);
  return server.post("create_custom_loss", { session_id: session, custom_loss_seq_id: seq, name, inputs, graph });
};

const tokens = [1, 2, 3, 4, 5];
const floats = (values: number[]) => TensorData.from(Float32Array.from(values));
const weights = [0, 1, 0.5, 2, 1];
function pass(model: string, seq: number, lossFn: string, lossFnConfig?: Record<string, string | number>, copies = 1) {
  const datum = new Datum({
    modelInput: ModelInput.fromInts(tokens),
    lossFnInputs: { target_tokens: tokens.map((token) => token + 1), weights: floats(weights) },
  });
  return encodeForwardBackwardRequest({
    modelId: model,
    seqId: seq,
    forwardBackwardInput: {
      lossFn,
      data: Array.from({ length: copies }, () => datum),
      ...omitUndefined({ lossFnConfig }),
    },
  });
}

/** The loss of one more pass with the model's current weights: equal losses mean equal weights. */
const fingerprint = async (model: string, seq: number) =>
  (await server.passResult(server.post("forward_backward", pass(model, seq, "cross_entropy")))).metrics["loss:sum"];

/** Trains a model with two passes and one step of one loss. */
async function trained(session: string, modelSeq: number, lossFn: string, config?: Record<string, string>) {
  const model = await server.model(session, { seq: modelSeq });
  const first = await server.passResult(server.post("forward_backward", pass(model, 1, lossFn, config)));
  // accepted while the previous pass is in its first half: a step must not run between its two halves
  const { promise, resolve } = gateway();
  gate = promise;
  const second = await server.post("forward_backward", pass(model, 2, lossFn, config));
  const step = await server.optim(model, 3);
  gate = undefined;
  resolve();
  await server.passResult(second);
  await server.result(step);
  await server.result(server.optim(model, 4)); // applies the gradients that arrived after the first step
  return { model, first, after: await fingerprint(model, 5) };
}

describe("create_custom_loss", () => {
  it("returns an id through a future; the same loss again returns the same id, another loss with its number is refused", async () => {
    const session = await server.session();
    const made = await server.result(create(session, "ppo", 3));
    expect(made).toEqual({ loss_id: `${session}:loss:3`, type: "create_custom_loss" });
    expect(await server.result(create(session, "ppo", 3))).toEqual(made);
    expect((await create(session, "dro", 3)).json).toMatchObject({ code: "number_reused" });
    expect((await server.post("client/config", { sdk_version: "x" })).json.custom_loss_server_side).toBe(true);
  });

  it("refuses operations that are not allowed, by name, and does not store the loss", async () => {
    const session = await server.session();
    const { inputs, graph } = traced("cross_entropy");
    const nodes = structuredClone(graph.nodes) as { target: string }[];
    nodes[2]!.target = "os.system";
    const body = { session_id: session, custom_loss_seq_id: 0, name: "x", inputs, graph: { format: 1, nodes } };
    const answer = await server.post("create_custom_loss", body);
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.json)).toContain("os.system");
    expect(await server.result(create(session, "cross_entropy", 0))).toHaveProperty("loss_id");
  });
});

describe("the number of stored losses", () => {
  const bounded = async (limits: Partial<Limits>) => {
    await server.close();
    server = await TestServer.open({ limits });
  };

  it("is bounded in number, for a session and for all sessions of a tenant", async () => {
    const limit = (count: number) => ({ count, bytes: 1e9 });
    await bounded({ lossesPerSession: limit(2), lossesPerTenant: limit(3) });
    const [one, two] = [await server.session(), await server.session()];
    for (const seq of [0, 1]) expect((await create(one, "ppo", seq)).status).toBe(200);
    expect((await create(one, "ppo", 2)).json).toMatchObject({
      code: "too_many_losses",
      detail: expect.stringMatching(/losses of a session/),
    });
    expect((await create(one, "ppo", 1)).status).toBe(200); // a retry, which is already stored
    expect((await create(two, "ppo", 0)).status).toBe(200);
    expect((await create(two, "ppo", 1)).json).toMatchObject({
      code: "too_many_losses",
      detail: expect.stringMatching(/losses of a key/),
    });
  });

  it("is bounded in bytes", async () => {
    const { inputs, graph } = traced("ppo");
    const bytes = 1.5 * JSON.stringify({ inputs, graph }).length;
    await bounded({ lossesPerTenant: { count: 1e6, bytes } });
    expect((await create(await server.session(), "ppo")).status).toBe(200);
    expect((await create(await server.session(), "ppo")).json.code).toBe("too_many_losses");
  });
});

describe("the loss custom", () => {
  it("trains exactly as the built-in loss of the same formula does", async () => {
    const session = await server.session();
    const { loss_id } = await server.result(create(session, "cross_entropy"));
    const builtIn = await trained(session, 0, "cross_entropy");
    const custom = await trained(session, 1, "custom", { loss_id });
    expect(custom.first.metrics["loss:sum"]).toBeCloseTo(builtIn.first.metrics["loss:sum"]!, 5);
    expect(custom.first.metrics["custom/nll:sum"]).toBe(custom.first.metrics["loss:sum"]);
    expect(custom.first.lossFnOutputs[0]!["logprobs"]!.data).toEqual(builtIn.first.lossFnOutputs[0]!["logprobs"]!.data);
    expect(custom.after).toBe(builtIn.after);
  });

  it("sums losses, and reduces metrics over the data by their names", async () => {
    const session = await server.session();
    const { loss_id } = await server.result(create(session, "masked_mean"));
    const model = await server.model(session);
    const bytes = () => {
      const datum = new Datum({
        modelInput: ModelInput.fromInts(tokens),
        lossFnInputs: { target_tokens: tokens, mask: floats([1, 0, 1, 0, 0]) },
      });
      const forwardBackwardInput = { data: [datum, datum], lossFn: "custom", lossFnConfig: { loss_id } };
      return encodeForwardBackwardRequest({ modelId: model, seqId: 1, forwardBackwardInput });
    };
    const { metrics } = await server.passResult(server.post("forward_backward", bytes()));
    expect(metrics["custom/tokens:sum"]).toBe(4);
  });

  it.each([
    ["no id", {}, /is required for the loss/],
    ["a number as an id", { loss_id: 3 }, /is required for the loss/],
    ["an id that is not there", { loss_id: "nothing" }, /has no loss/],
  ] as const)("fails its future with %s, and the model continues", async (_, config, expected) => {
    const model = await server.model();
    const failed = await server.result(server.post("forward_backward", pass(model, 1, "custom", config)));
    expect(failed).toMatchObject({ error: expect.stringMatching(expected), category: "user" });
    expect(await fingerprint(model, 2)).toBeTypeOf("number");
  });

  it("belongs to its session", async () => {
    const { loss_id } = await server.result(create(await server.session(), "cross_entropy"));
    const model = await server.model(await server.session());
    const failed = await server.result(server.post("forward_backward", pass(model, 1, "custom", { loss_id })));
    expect(failed.error).toMatch(/has no loss/);
  });

  it("names the datum on which the loss failed", async () => {
    const session = await server.session();
    const { loss_id } = await server.result(create(session, "ppo"));
    const model = await server.model(session);
    const failed = await server.result(server.post("forward_backward", pass(model, 1, "custom", { loss_id })));
    expect(failed).toEqual({
      error: "The custom loss failed on data[0]: sampling: is missing from loss_fn_inputs",
      category: "user",
    });
  });

  it("refuses a sparse input that would be huge, and does not read inputs that the loss does not use", async () => {
    const session = await server.session();
    const { loss_id } = await server.result(create(session, "cross_entropy"));
    const model = await server.model(session);
    const huge = TensorData.ofParts({
      dtype: "float32",
      values: new Float32Array(0),
      shape: [1, 2 ** 40],
      sparseCrowIndices: new BigInt64Array(2),
      sparseColIndices: new BigInt64Array(0),
    });
    const sent = (seq: number, lossFnInputs: Record<string, TensorData>) => {
      const target_tokens = TensorData.from(BigInt64Array.from(tokens, (token) => BigInt(token + 1)));
      const datum = new Datum({
        modelInput: ModelInput.fromInts(tokens),
        lossFnInputs: { target_tokens, weights: floats(weights), ...lossFnInputs },
      });
      const forwardBackwardInput = { lossFn: "custom", data: [datum], lossFnConfig: { loss_id } };
      const body = encodeForwardBackwardRequest({ modelId: model, seqId: seq, forwardBackwardInput });
      return server.post("forward_backward", body);
    };
    const failed = await server.result(sent(1, { weights: huge }));
    expect(failed).toMatchObject({
      error: expect.stringMatching(/weights: must have at most 4194304 elements/),
      category: "user",
    });
    const { metrics } = await server.passResult(sent(2, { other: huge }));
    expect(metrics["loss:sum"]).toBeTypeOf("number");
  });

  it("refuses empty tensors with a large axis, and sparse targets that would be large when dense", async () => {
    const session = await server.session();
    const node = (op: string, name: string, target: string, args: unknown[]) => ({
      op,
      name,
      target,
      args,
      kwargs: {},
    });
    const ref = (name: string) => ({ ref: name });
    const inputs = ["logprobs", "weights"].map((name) => ({ name, rank: name === "weights" ? 2 : 1 }));
    const graph = {
      format: 1,
      nodes: [
        node("placeholder", "logprobs", "logprobs", []),
        node("placeholder", "weights", "weights", []),
        node("call_function", "wide", "torch.logsumexp", [ref("weights"), 0]),
        node("call_method", "loss", "sum", [ref("logprobs")]),
        node("output", "output", "output", [{ tuple: [ref("loss"), { dict: {} }] }]),
      ],
    };
    const body = { session_id: session, custom_loss_seq_id: 0, name: "wide", inputs, graph };
    const { loss_id } = await server.result(server.post("create_custom_loss", body));
    const model = await server.model(session);
    const send = (seqId: number, data: Datum[]) => {
      const forwardBackwardInput = { lossFn: "custom", data, lossFnConfig: { loss_id } };
      return server.result(
        server.post("forward_backward", encodeForwardBackwardRequest({ modelId: model, seqId, forwardBackwardInput })),
      );
    };
    const modelInput = ModelInput.fromInts(tokens);
    const weightsOf = (shape: number[]) =>
      TensorData.from(new Float32Array(shape.reduce((a, b) => a * b, 1)), { shape, field: "weights" });
    const before = process.memoryUsage().arrayBuffers;
    const targets = tokens.map((token) => token + 1);
    const empty = new Datum({
      modelInput,
      lossFnInputs: { target_tokens: targets, weights: weightsOf([0, 40_000_000]) },
    });
    expect(await send(1, [empty])).toMatchObject({
      category: "user",
      error: expect.stringContaining("must have at most 4194304 elements, got 40000000"),
    });
    const sparse = TensorData.fromSparse({
      values: BigInt64Array.of(1n),
      shape: [1, 4_000_000],
      crowIndices: [0, 1],
      colIndices: [7],
    });
    const claim = new Datum({
      modelInput: ModelInput.fromInts([1]),
      lossFnInputs: { target_tokens: sparse, weights: weightsOf([1, 1]) },
    });
    expect(await send(2, new Array<Datum>(1000).fill(claim))).toMatchObject({
      category: "user",
      error: expect.stringMatching(/data\[4\].*a pass must have at most 16777216 target elements/),
    });
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100e6);
    expect(await fingerprint(model, 3)).toBeTypeOf("number"); // the model still works
  });

  it("does not block the event loop, for data of any size", async () => {
    const session = await server.session();
    const node = (op: string, name: string, target: string, args: unknown[], kwargs = {}) => ({
      op,
      name,
      target,
      args,
      kwargs,
    });
    const ref = (name: string) => ({ ref: name });
    // many tensors of the squared input length: some ten million elements from a few kilobytes
    const graph = {
      format: 1,
      nodes: [
        node("placeholder", "logprobs", "logprobs", []),
        node("placeholder", "weights", "weights", []),
        node("call_method", "column", "unsqueeze", [ref("weights"), 1]),
        node("call_function", "square", "operator.mul", [ref("weights"), ref("column")]),
        ...[1, 2, 3].map((i) => node("call_method", `exp${i}`, "exp", [ref("square")])),
        node("call_method", "loss", "sum", [ref("logprobs")]),
        node("output", "output", "output", [{ tuple: [ref("loss"), { dict: {} }] }]),
      ],
    };
    const inputs = ["logprobs", "weights"].map((name) => ({ name, rank: 1 }));
    const body = { session_id: session, custom_loss_seq_id: 0, name: "square", inputs, graph };
    const { loss_id } = await server.result(server.post("create_custom_loss", body));
    const model = await server.model(session);
    const datum = new Datum({
      modelInput: ModelInput.fromInts(tokens),
      lossFnInputs: {
        target_tokens: tokens.map((token) => token + 1),
        weights: floats(Array.from({ length: 1800 }, (_, i) => i / 1800)),
      },
    });
    const forwardBackwardInput = { lossFn: "custom", data: [datum], lossFnConfig: { loss_id } };
    const accepted = await server.post(
      "forward_backward",
      encodeForwardBackwardRequest({ modelId: model, seqId: 1, forwardBackwardInput }),
    );
    const turns = await turnsDuring(async () => {
      expect((await server.passResult(accepted)).metrics["loss:sum"]).toBeTypeOf("number");
    });
    // On this thread the event loop would turn once; with the side thread it turns thousands of times.
    expect(turns).toBeGreaterThan(100);
  });

  it("runs again from the log after a restart, and the model is equal bit for bit", async () => {
    const session = await server.session();
    const { loss_id } = await server.result(create(session, "focal"));
    const model = await server.model(session);
    await server.passResult(server.post("forward_backward", pass(model, 1, "custom", { loss_id })));
    await server.result(server.optim(model, 2));
    const before = await fingerprint(model, 3);
    await server.close();
    server = await open();
    expect(await fingerprint(model, 4)).toBe(before);
    const again = await server.passResult(server.post("forward_backward", pass(model, 5, "custom", { loss_id })));
    expect(again.metrics["loss:sum"]).toBeTypeOf("number");
  });
});
