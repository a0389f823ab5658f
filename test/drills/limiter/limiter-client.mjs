// One process of limiter.mjs: connects, waits for its signal, and samples everything at once.
import { once } from "node:events";
import { ServiceClient } from "@tinklet/sdk";

const [url, requests, shared] = process.argv.slice(2);
const service = await ServiceClient.connect({
  apiKey: "tml-limiter",
  baseUrl: url,
  telemetry: false,
  logLevel: "error",
  ...(shared === "" ? {} : { sharedLimits: JSON.parse(shared) }),
});
const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
process.send("ready");
await once(process, "message");
await Promise.all(
  Array.from({ length: Number(requests) }, (_, i) => sampler.sample([i + 1], { samplingParams: { maxTokens: 2 } })),
);
await service.close();
process.disconnect();
