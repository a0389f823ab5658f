// The same program in Node, on the engine's WebAssembly runtime; the check compares the page with it.
import { openEngine } from "@tinklet/engine";
import { batchAt, drawn, examplesOf, promptOf, sampling, settings } from "./program.mjs";

const dataOf = (examples, step) =>
  batchAt(examples, step).map(({ tokens, targets, weights }) => ({
    tokens,
    lossFnInputs: { target_tokens: { data: targets }, weights: { data: weights } },
  }));

export async function openReference(folder, text, loadTokenizer) {
  const engine = await openEngine(folder, { runtime: "wasm", threads: 1, inThread: true });
  const tokenizer = await loadTokenizer(folder);
  const examples = examplesOf(tokenizer, text);
  const { adapterId } = await engine.createAdapter({ rank: settings.rank, alpha: 32, seed: settings.seed });
  return {
    async train(from, to) {
      const losses = [];
      for (let step = from; step < to; step++) {
        const data = dataOf(examples, step);
        const { metrics } = await engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
        losses.push(metrics["loss:sum"]);
        await engine.optimStep(adapterId, { learningRate: settings.learningRate, beta1: 0.9, beta2: 0.95, eps: 1e-12 });
      }
      return losses;
    },
    async sample() {
      const results = [];
      for (const params of [sampling, drawn]) {
        const { sequences } = await engine.sample({ prompt: promptOf(tokenizer), adapter: adapterId, params });
        results.push({ tokens: [...sequences[0].tokens], logprobs: [...sequences[0].logprobs] });
      }
      return results;
    },
    /** Log-probs of a batch with the adapter in a PEFT folder. */
    async forwardWith(peft, step) {
      const loaded = await engine.importState(await engine.readPeft(peft));
      const { lossFnOutputs } = await engine.forward(loaded.adapterId, {
        data: dataOf(examples, step),
        lossFn: "cross_entropy",
      });
      await engine.deleteAdapter(loaded.adapterId);
      return lossFnOutputs.map(({ logprobs }) => [...logprobs.data]);
    },
    close: () => engine.close(),
  };
}
export { loadTokenizer } from "@tinklet/models";
