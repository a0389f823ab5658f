/** Losses of one datum: stored on a server that runs them, run here for one that does not, with the same outcome. */
import { describe, expect, it, onTestFinished } from "vitest";
import { createServer } from "../../../server/src/server.ts";
import { fakeEngine } from "../../../server/src/testing/fake-engine.ts";
import { failure, harness } from "../testing/harness.ts";
import { Datum } from "../wire/datum.ts";
import { ModelInput } from "../wire/model-input.ts";
import { TensorData } from "../wire/tensor-data.ts";
import type { CustomLoss, PerDatumLossFn } from "./per-datum-loss.ts";
import { ServiceClient } from "./service-client.ts";

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
