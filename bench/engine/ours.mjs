// Our side of the benches `engine` and `gpu`, in a process of its own so that its peak memory is its own. Speaks the same line protocol as
// torch_peer.py: one JSON command per line in, one JSON line out.
//   ours.mjs FOLDER OPTIONS     options of openEngine, as JSON
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { openEngine } from "@tinklet/engine";

const [folder, options] = process.argv.slice(2);
const start = performance.now();
const engine = await openEngine(folder, JSON.parse(options));
const loadSeconds = (performance.now() - start) / 1000;
const { vocabSize } = engine.info;
let adapterId;

const ids = (length) => Int32Array.from({ length }, () => Math.floor(Math.random() * vocabSize));

const commands = {
  async train({ lengths, steps, zeroShare = 0 }) {
    adapterId ??= (await engine.createAdapter({ rank: 16, seed: 1, trainUnembed: false })).adapterId;
    const data = lengths.map((length) => ({
      tokens: ids(length),
      lossFnInputs: {
        target_tokens: { data: ids(length) },
        weights: { data: Float32Array.from({ length }, (_, i) => (i < length * zeroShare ? 0 : 1)) },
      },
    }));
    const seconds = [];
    for (let step = 0; step < steps; step++) {
      const begin = performance.now();
      await Promise.all([
        engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" }),
        engine.optimStep(adapterId, { learningRate: 1e-4 }),
      ]);
      seconds.push((performance.now() - begin) / 1000);
    }
    return { seconds, tokens: lengths.reduce((sum, length) => sum + length, 0) };
  },
  /** As `generate` is measured: one call, every sequence with its own prompt. */
  async generate({ batch, prompt, new: count }) {
    const prompts = Array.from({ length: batch }, () => ids(prompt));
    const begin = performance.now();
    await Promise.all(
      prompts.map((tokens) => engine.sample({ prompt: tokens, params: { maxTokens: count, temperature: 1 } })),
    );
    return { seconds: [(performance.now() - begin) / 1000], tokens: batch * count };
  },
  /** One importance-sampling step over groups of answers to prompts. */
  async policy({ data, rank = 16 }) {
    adapterId ??= (await engine.createAdapter({ rank, seed: 1, trainUnembed: false })).adapterId;
    const list = data.map(({ tokens, prompt, advantage }) => {
      const counts = (value) =>
        Float32Array.from({ length: tokens.length - 1 }, (_, i) => (i >= prompt - 1 ? value : 0));
      return {
        tokens: Int32Array.from(tokens.slice(0, -1)),
        lossFnInputs: {
          target_tokens: { data: Int32Array.from(tokens.slice(1)) },
          logprobs: { data: counts(-10) },
          advantages: { data: counts(advantage) },
        },
      };
    });
    const begin = performance.now();
    await Promise.all([
      engine.forwardBackward(adapterId, { data: list, lossFn: "importance_sampling" }),
      engine.optimStep(adapterId, { learningRate: 1e-6 }),
    ]);
    return {
      seconds: [(performance.now() - begin) / 1000],
      tokens: data.reduce((sum, { tokens }) => sum + tokens.length, 0),
    };
  },
  /** From a prompt to its first token, alone. */
  async firstToken({ prompt, repeats }) {
    const seconds = [];
    for (let repeat = 0; repeat < repeats; repeat++) {
      const begin = performance.now();
      await engine.sample({ prompt: ids(prompt), params: { maxTokens: 1, temperature: 1 } });
      seconds.push((performance.now() - begin) / 1000);
    }
    return { seconds, tokens: 1 };
  },
  /** How long the caller's event loop is held up while the engine trains and samples: by its own work, and waiting for a core included. */
  async loop({ lengths, steps, batch, new: count }) {
    const schedule = `/proc/self/task/${process.pid}/schedstat`;
    const ownMs = () => Number(readFileSync(schedule, "utf8").split(" ")[0]) / 1e6; // time on a core
    const longest = { own: 0, gap: 0 };
    let [own, at] = [ownMs(), performance.now()];
    const timer = setInterval(() => {
      const [nextOwn, now] = [ownMs(), performance.now()];
      longest.own = Math.max(longest.own, nextOwn - own);
      longest.gap = Math.max(longest.gap, now - at);
      [own, at] = [nextOwn, now];
    }, 1);
    await commands.train({ lengths, steps });
    await commands.generate({ batch, prompt: 32, new: count });
    clearInterval(timer);
    return longest;
  },
  async memory() {
    return { peakBytes: Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]) * 1024 };
  },
};

console.log(JSON.stringify({ ready: true, loadSeconds, runtime: engine.info.runtime, device: engine.info.device }));
for await (const line of createInterface({ input: process.stdin })) {
  const { do: name, ...args } = JSON.parse(line);
  if (name === "quit") break;
  console.log(JSON.stringify(await commands[name](args)));
}
await engine.close();
