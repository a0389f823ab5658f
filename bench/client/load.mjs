// Samples through this SDK: `node load.mjs URL CALLS [SOCKETS]`; prints calls and CPU seconds of this process as JSON.
// SOCKETS is JSON: how many connections each purpose may have.
import { ModelInput, ServiceClient } from "../../packages/sdk/dist/index.js";

const [url, calls] = [process.argv[2], Number(process.argv[3])];
const maxSockets = JSON.parse(process.argv[4] ?? "{}");
const service = new ServiceClient({ apiKey: "tml-bench", baseUrl: url, maxSockets });
const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
const prompt = ModelInput.fromInts(Array.from({ length: 64 }, (_, i) => 1000 + i));
const round = (n) =>
  Promise.all(Array.from({ length: n }, () => sampler.sample(prompt, { samplingParams: { maxTokens: 32 } })));
await round(200); // connections, compiled code
const before = process.cpuUsage();
for (let done = 0; done < calls; done += 2_000) await round(2_000);
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ calls, cpu: (user + system) / 1e6 }));
await service.close();
