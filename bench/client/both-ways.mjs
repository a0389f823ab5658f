// Samples asked for one by one and through one poll for all, alternating in one process: `node both-ways.mjs URL URL ROUNDS`, the second
// server being one that asks for the one poll. Prints the CPU seconds of each round of 2,000 samples as JSON.
import { ModelInput, ServiceClient } from "../../packages/sdk/dist/index.js";

const [alone, together, rounds] = [process.argv[2], process.argv[3], Number(process.argv[4])];
const prompt = ModelInput.fromInts(Array.from({ length: 64 }, (_, i) => 1000 + i));
const open = async (baseUrl) => {
  const service = new ServiceClient({ apiKey: "tml-bench", baseUrl });
  const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
  const round = (n) =>
    Promise.all(Array.from({ length: n }, () => sampler.sample(prompt, { samplingParams: { maxTokens: 32 } })));
  await round(500); // connections, compiled code
  return { service, round, cpu: [] };
};
const ways = [await open(alone), await open(together)];
for (let i = 0; i < 2 * rounds; i++) {
  const way = ways[(i + (i >> 1)) % 2]; // 0 1 1 0: neither is always the first
  const before = process.cpuUsage();
  await way.round(2_000);
  const { user, system } = process.cpuUsage(before);
  way.cpu.push((user + system) / 1e6);
}
console.log(JSON.stringify({ alone: ways[0].cpu, together: ways[1].cpu }));
await Promise.all(ways.map(({ service }) => service.close()));
