// A process of its own: opens the bundled model, samples one token, prints the CPU milliseconds that took on all threads.
const began = process.cpuUsage();
const { openEngine } = await import("@tinklet/engine");
const { modelPath } = await import("@tinklet/base-model");
const engine = await openEngine(modelPath);
await engine.sample({ prompt: [1], params: { maxTokens: 1, seed: 1 } });
const { user, system } = process.cpuUsage(began);
console.log((user + system) / 1000);
await engine.close();
