/** Losses of one datum: stored on a server that runs them, run here for one that does not, with the same outcome. */

import { Datum, ModelInput, TensorData } from "@tinklet/wire";
import { leaf, type Var } from "@tinklet/wire/autodiff";
import { describe, expect, it, onTestFinished } from "vitest";
import { createServer } from "../../../../../server/src/server.ts";
import { fakeEngine } from "../../../../../server/src/testing/fake-engine.ts";
import { failure, harness } from "../../../testing/harness.ts";
import { ServiceClient } from "../../service-client.ts";
import { batchLoss, CustomLoss, checkLossInputs, type PerDatumLossFn } from "./per-datum-loss.ts";
import { lossInputs } from "./trace-loss.ts";

const policy: PerDatumLossFn<"sampling" | "advantages" | "beta"> = ({ logprobs, sampling, advantages, beta }) => {
  const ratio = logprobs.sub(sampling).exp();
  const gain = ratio.mul(advantages).min(ratio.clamp({ min: 0.8, max: 1.2 }).mul(advantages));
  return {
    loss: gain.sum().neg().add(logprobs.mean().mul(beta)),
    metrics: { "custom/ratio:mean": ratio.mean(), "custom/tokens:sum": logprobs.mul(0).add(1).sum() },
  };
};
const ranks = { logprobs: 1, sampling: 1, advantages: 1, beta: 0 } as const;

const floats = (values: number[], shape = [values.length]) => TensorData.from(Float32Array.from(values), { shape });
const datum = (tokens: number[]) =>
  new Datum({
    modelInput: ModelInput.fromInts(tokens),
    lossFnInputs: {
      target_tokens: tokens.map((token) => token + 1),
      sampling: floats(tokens.map((token) => -1 - token / 10)),
      advantages: floats(tokens.map((token) => (token % 2 === 0 ? 1 : -0.5))),
      beta: floats([0.25], []),
    },
  });
const data = [datum([1, 2, 3, 4]), datum([5, 6, 7])];

const never: PerDatumLossFn = () => {
  throw new Error("is not run");
};

/** A client of a server in this process; `serverSide` is what the server says of itself. */
async function connected(serverSide: boolean) {
  const server = await createServer({ models: [{ name: "m", open: async () => fakeEngine() }] });
  const paths: string[] = [];
  const fetch = async (request: Request | string | URL, init?: RequestInit) => {
    const sent = new Request(request, init);
    const { pathname } = new URL(sent.url);
    paths.push(pathname.replace("/api/v1/", ""));
    const answer = await server.fetch(sent);
    if (serverSide || !pathname.endsWith("/client/config")) return answer;
    return Response.json({ ...((await answer.json()) as object), custom_loss_server_side: false });
  };
  const service = new ServiceClient({
    apiKey: "tml-test",
    baseUrl: "http://localhost",
    fetch: fetch as never,
    telemetry: false,
  });
  onTestFinished(async () => {
    await service.close();
    await server.close();
  });
  return { service, paths };
}

/** Two passes and a step with a loss, and what a third pass then sees. */
async function trained(serverSide: boolean, fn: PerDatumLossFn<"sampling" | "advantages" | "beta"> = policy) {
  const { service, paths } = await connected(serverSide);
  const trainer = await service.createLoraTrainingClient({ baseModel: "m", rank: 4, seed: 3 });
  const loss: CustomLoss = await service.createCustomLoss(fn, ranks, { name: "policy" });
  const first = await trainer.forwardBackwardCustom(data, loss);
  await trainer.optimStep({ learningRate: 0.01 });
  const second = await trainer.forwardBackwardCustom(data, loss);
  const passes = paths.filter((path) => path === "forward_backward").length;
  return { loss, first, second, passes };
}

describe("createCustomLoss", () => {
  it("stores the loss where the server runs it: one request a pass, and the same outcome as run by the client", async () => {
    const [there, here] = [await trained(true), await trained(false)];
    expect(there.loss.lossId).toMatch(/:loss:0$/);
    expect(here.loss).toMatchObject({ name: "policy", lossId: undefined, untraced: undefined });
    expect([there.passes, here.passes]).toEqual([2, 4]);
    for (const pass of ["first", "second"] as const) {
      expect(there[pass].loss).toBeCloseTo(here[pass].loss!, 5);
      for (const name of ["custom/ratio:mean", "custom/tokens:sum"]) {
        expect(there[pass].metrics[name]).toBeCloseTo(here[pass].metrics[name]!, 5);
      }
    }
    expect(there.first.metrics["custom/tokens:sum"]).toBe(7);
    expect(there.second.loss).not.toBeCloseTo(there.first.loss!, 6);
  });

  it("runs a loss that reads lengths here, and says why", async () => {
    const { loss, passes, first } = await trained(true, ({ logprobs, advantages }) => ({
      loss: logprobs.dot(advantages).div(-logprobs.size),
    }));
    expect(loss.lossId).toBeUndefined();
    expect(loss.untraced).toContain("reads lengths");
    expect(passes).toBe(4);
    expect(first.loss).toBeTypeOf("number");
  });

  it("refuses data that lack an input or have it with another rank, before anything is sent", async () => {
    for (const config of [{ custom_loss_server_side: true }, {}]) {
      const { service, run, stub } = harness({ config });
      const trainer = await run(service.createLoraTrainingClient({ baseModel: "stub/model" }));
      const loss = await run(service.createCustomLoss(policy, ranks));
      const { sampling: _, ...rest } = data[0]!.lossFnInputs;
      const without = new Datum({ modelInput: data[0]!.modelInput, lossFnInputs: rest });
      expect(await failure(run(trainer.forwardBackwardCustom([without], loss)))).toMatchObject({
        field: "data[0].lossFnInputs.sampling",
      });
      const flat = new Datum({
        modelInput: data[0]!.modelInput,
        lossFnInputs: { ...data[0]!.lossFnInputs, beta: floats([1]) },
      });
      expect(await failure(run(trainer.forwardBackwardCustom([data[1]!, flat], loss)))).toMatchObject({
        field: "data[1].lossFnInputs.beta",
      });
      expect(stub.callsOf("forwardBackward")).toHaveLength(0);
    }
  });

  it("says what is wrong with the data", async () => {
    const loss = new CustomLoss({ name: "mine", inputs: lossInputs({ logprobs: 2, sampling: 1 }), fn: never });
    const problem = (lossFnInputs: Record<string, TensorData | number[]>) => {
      const bad = new Datum({ modelInput: ModelInput.fromInts([1, 2]), lossFnInputs });
      try {
        checkLossInputs(loss, [bad]);
      } catch (error) {
        return (error as Error).message;
      }
      return undefined;
    };
    const targets = TensorData.from([[1, 2]], { dtype: "int64" });
    expect(problem({ target_tokens: targets, sampling: floats([1, 2]) })).toBeUndefined();
    expect(problem({ target_tokens: targets })).toBe("data[0].lossFnInputs.sampling: is required by the loss mine");
    expect(problem({ sampling: floats([1, 2]) })).toBe(
      "data[0].lossFnInputs.target_tokens: is required by the loss mine",
    );
    expect(problem({ target_tokens: [1, 2], sampling: floats([1, 2]) })).toBe(
      "data[0].lossFnInputs.target_tokens: must have rank 2, as declared by the loss, got 1", // the log-probs have the targets' shape
    );
    const shapeless = TensorData.ofParts({ dtype: "float32", values: Float32Array.of(1, 2) });
    expect(problem({ target_tokens: targets, sampling: shapeless })).toBeUndefined(); // a vector, as everywhere
  });

  it("run by the client, a batch's loss is the sum over its data; metrics are summed, or averaged where they say so", () => {
    const fn: PerDatumLossFn<"scale"> = ({ logprobs, scale }) => ({
      loss: logprobs.mul(scale).sum(),
      metrics: { "custom/scale:mean": scale.mean(), "custom/scale:sum": scale.sum() },
    });
    const quiet: PerDatumLossFn<"scale"> = ({ logprobs }) => ({ loss: logprobs.sum() });
    const inputs = lossInputs({ logprobs: 1, scale: 1 });
    const some = new CustomLoss({ name: "scaled", inputs, fn: fn as never });
    const scaled = (values: number[]) =>
      new Datum({
        modelInput: ModelInput.fromInts([1, 2]),
        lossFnInputs: { target_tokens: [1, 2], scale: floats(values) },
      });
    const run = (batch: readonly Datum[]) =>
      batchLoss(some, batch)(
        batch,
        batch.map(() => leaf([-1, -2])),
      ) as { loss: Var; metrics: Record<string, number> };
    const three = run([scaled([1, 1]), scaled([2, 2]), scaled([0, 3])]);
    expect(three.loss.item()).toBe(-3 - 6 - 6);
    expect(three.metrics).toEqual({ "custom/scale:mean": 1.5, "custom/scale:sum": 9 });
    expect(run([scaled([5, 1])]).loss.item()).toBe(-7);
    const silent = new CustomLoss({ name: "quiet", inputs, fn: quiet as never });
    expect(batchLoss(silent, [scaled([1, 1])])([], [leaf([-1, -2])])).toMatchObject({ metrics: {} });
  });

  it("names the loss after its function, and asks for what any server would refuse before it is sent", async () => {
    const { service, run, stub } = harness({ config: { custom_loss_server_side: true } });
    expect((await run(service.createCustomLoss(policy, ranks))).name).toBe("policy");
    expect(stub.callsOf("createCustomLoss")[0]?.body).toMatchObject({ name: "policy", customLossSeqId: 0 });
    const nameless = await run(service.createCustomLoss(({ logprobs }) => ({ loss: logprobs.sum() }), { logprobs: 1 }));
    expect(nameless).toMatchObject({ name: "loss", lossId: "session-1:loss:1" });
    const bad = service.createCustomLoss(({ logprobs }) => ({ loss: logprobs }), { logprobs: 1 });
    expect(await failure(run(bad))).toMatchObject({ field: "loss" });
    expect(stub.callsOf("createCustomLoss")).toHaveLength(2);
  });
});
