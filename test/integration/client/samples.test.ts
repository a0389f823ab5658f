/** Many samples of our client on our server, through one long poll: how often it asks, and what becomes of those given up. */
import { ServiceClient } from "tinklet";
import { afterEach, beforeEach, expect, it, onTestFinished } from "vitest";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";
import { gateway, TestServer } from "../../../packages/server/src/testing/test-server.ts";
import { baseModel, fakeServer } from "../cli/executable.ts";

let server: Awaited<ReturnType<typeof fakeServer>>;
beforeEach(async () => {
  server = await fakeServer();
});
afterEach(() => server.close());

/** A client that counts what it asks, by the last word of the path, and the answers that say "try again". */
function counted() {
  const asked: Record<string, number> = {};
  let tryAgain = 0;
  const service = new ServiceClient({
    apiKey: "tml-test",
    baseUrl: server.url,
    telemetry: false,
    logLevel: "error",
    fetch: async (url, init) => {
      const path = new URL(url).pathname.split("/").at(-1) as string;
      asked[path] = (asked[path] ?? 0) + 1;
      const answer = await fetch(url, init);
      const isJson = answer.headers.get("content-type")?.includes("json") === true;
      if (path === "retrieve_future" && isJson && (await answer.clone().text()).includes("try_again")) tryAgain++;
      return answer;
    },
  });
  return { service, asked, tryAgain: () => tryAgain };
}
const options = { samplingParams: { maxTokens: 2 } };

it("many samples (SAMPLES=10000: as many) take few polls beside one retrieval each, and none is asked for in vain", async () => {
  const total = Number(process.env["SAMPLES"] ?? 200);
  const { service, asked, tryAgain } = counted();
  const sampler = await service.createSamplingClient({ baseModel });
  const all = Array.from({ length: total }, (_, i) => sampler.sample([1, 2, i % 7], options));
  const results = await Promise.all(all);
  expect(results.every(({ sequences }) => sequences[0]?.tokens.length === 2)).toBe(true);
  const { retrieve_future: single = 0, retrieve_futures: polls = 0 } = asked;
  if (process.env["SAMPLES"] !== undefined) console.log({ total, single, polls, perSample: (single + polls) / total });
  expect(polls).toBeGreaterThan(0);
  expect(single).toBe(total);
  // The last few are asked for one by one, which shows where there are few in all.
  expect((single + polls) / total).toBeLessThanOrEqual(total < 1000 ? 1.5 : 1.1);
  expect(tryAgain()).toBe(0);
  await service.close();
}, 300_000);

it("samples that are given up are cancelled on the server, and the others come", async () => {
  const { service, asked } = counted();
  const sampler = await service.createSamplingClient({ baseModel });
  const controller = new AbortController();
  const slow = { samplingParams: { maxTokens: 64 } };
  const kept = Array.from({ length: 100 }, () => sampler.sample([1, 2], slow));
  const left = Array.from({ length: 100 }, () => sampler.sample([1, 2], { ...slow, signal: controller.signal }));
  const ends = Promise.allSettled(left);
  await left[0]?.submitted;
  controller.abort(new Error("enough"));
  const ended = await ends;
  const given = ended.filter(({ status }) => status === "rejected").length;
  expect(given).toBeGreaterThan(0);
  expect((await Promise.all(kept)).every(({ sequences }) => sequences.length === 1)).toBe(true);
  expect(asked["cancel_future"] ?? 0).toBeLessThanOrEqual(given); // those that were never sent need none
  await service.close();
}, 60_000);

it("samples that are given up (SAMPLES=2000: 1,000 of as many) leave the engine, no other of them begins, and every future ends", async () => {
  const total = Number(process.env["SAMPLES"] ?? 400);
  const open = gateway();
  const engine = fakeEngine({ beforeCall: () => open.promise });
  const onEngine = new Set<number>();
  const begun: number[] = [];
  let awaited = Number.POSITIVE_INFINITY;
  const arrived = gateway();
  const model = {
    name: "test/model",
    open: async () => ({
      ...engine,
      sample: async (...[request, options]: Parameters<typeof engine.sample>) => {
        const seed = request.params?.seed ?? -1;
        onEngine.add(seed);
        if (begun.push(seed) === awaited) arrived.resolve();
        return engine.sample(request, options).finally(() => onEngine.delete(seed));
      },
    }),
  };
  const inProcess = await TestServer.open({ models: [model] });
  onTestFinished(() => inProcess.close());
  const cancelled = gateway();
  let cancels = 0;
  const service = new ServiceClient({
    apiKey: inProcess.key,
    baseUrl: "http://localhost",
    telemetry: false,
    logLevel: "error",
    fetch: async (url, init) => {
      const answer = await inProcess.server.fetch(new Request(url, init));
      if (String(url).endsWith("/cancel_future") && ++cancels === total / 2) cancelled.resolve();
      return answer;
    },
  });
  const sampler = await service.createSamplingClient({ baseModel: "test/model" });
  const controller = new AbortController();
  const samples = Array.from({ length: total }, (_, seed) =>
    sampler.sample([1, 2, 3], {
      samplingParams: { maxTokens: 2, seed },
      ...(seed % 2 === 0 ? { signal: controller.signal } : {}),
    }),
  );
  const given = samples.filter((_, seed) => seed % 2 === 0);
  const ends = Promise.allSettled(given);
  await Promise.all(samples.map(({ submitted }) => submitted));
  const places = onEngine.size;
  const before = begun.length;
  const running = [...onEngine].filter((seed) => seed % 2 === 0).length;
  expect(running).toBeGreaterThan(0);
  awaited = before + running;
  const reason = new Error("enough");
  controller.abort(reason);
  expect((await ends).every((end) => end.status === "rejected" && end.reason === reason)).toBe(true);
  await cancelled.promise;
  const told = await Promise.all(given.map(({ requestId }) => inProcess.retrieve(requestId as string)));
  expect(told.every(({ json }) => json.error === "The sample was cancelled by its client.")).toBe(true);
  await arrived.promise; // as many others have taken the places of those that ran, while the engine drew nothing
  expect(onEngine.size).toBe(places);
  expect([...onEngine].every((seed) => seed % 2 === 1)).toBe(true);
  open.resolve();
  const kept = await Promise.all(samples.filter((_, seed) => seed % 2 === 1));
  expect(kept.every(({ sequences }) => sequences[0]?.tokens.length === 2)).toBe(true);
  expect(begun.slice(before).every((seed) => seed % 2 === 1)).toBe(true);
  await service.close();
}, 120_000);
