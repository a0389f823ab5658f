/** Trains the agent and says how much better it got: `node examples/agent/main.ts [--seed 1] [--steps 12] [--warm-up 36] [--learning-rate 2e-4] [--json]`. */
import { parseArgs } from "node:util";
import { trainAgent } from "./train.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    steps: { type: "string", default: "12" },
    "learning-rate": { type: "string", default: "2e-4" },
    json: { type: "boolean", default: false },
    "warm-up": { type: "string", default: "36" },
  },
});
const { seed, steps, "warm-up": warmUpSteps, "learning-rate": learningRate } = values;
const log = (line: string) => void console.error(line);
const { before, after, rewards, seconds } = await trainAgent({
  seed: Number(seed),
  steps: Number(steps),
  warmUpSteps: Number(warmUpSteps),
  learningRate: Number(learningRate),
  log,
});
if (values.json) console.log(JSON.stringify({ seed: Number(seed), before, after, rewards, seconds }));
else {
  const percent = (share: number) => `${(100 * share).toFixed(0)} %`;
  console.log(
    `The agent solved ${percent(before)} of the test tasks after the warm-up, and ${percent(after)} after training.`,
  );
  console.log(`Warm-up ${seconds.warmUp.toFixed(0)} s, training ${seconds.training.toFixed(0)} s.`);
}
