/** Many samples of our client on our server, through one long poll: how often it asks, and what becomes of those given up. */
import { ServiceClient } from "tinklet";
import { afterEach, beforeEach, expect, it } from "vitest";
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
