// Heap of samples that are waited for: `node --expose-gc heap.mjs URL CALLS`; prints bytes per call as JSON. The server
// must take long enough that all of them are waiting at once.
import { ModelInput, ServiceClient } from "../../packages/sdk/dist/index.js";

const [url, calls] = [process.argv[2], Number(process.argv[3])];
const service = new ServiceClient({
  apiKey: "tml-bench",
  baseUrl: url,
  logLevel: "off",
  maxSockets: { retrieve: calls + 64 },
});
const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
const prompt = ModelInput.fromInts(Array.from({ length: 64 }, (_, i) => 1000 + i));
await sampler.sample(prompt);
const settle = () => new Promise((resolve) => setTimeout(resolve, 300));
const heap = async () => {
  await settle();
  globalThis.gc();
  globalThis.gc();
  return process.memoryUsage().heapUsed;
};
const before = await heap();
const all = Array.from({ length: calls }, () => sampler.sample(prompt, { samplingParams: { maxTokens: 32 } }));
while (all.some(({ phase }) => phase === "waiting" || phase === "submitting")) await settle();
const after = await heap();
const waiting = all.filter(({ phase }) => phase === "running").length;
console.log(JSON.stringify({ calls, waiting, bytesPerCall: (after - before) / calls }));
await Promise.all(all);
await service.close();
