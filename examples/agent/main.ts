/** Trains the agent and says how much better it got: `node examples/agent/main.ts [--seed 1] [--steps 10] [--warm-up 36] [--json]`. */
import { parseArgs } from "node:util";
import { trainAgent } from "./train.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    steps: { type: "string", default: "10" },
    json: { type: "boolean", default: false },
    "warm-up": { type: "string", default: "36" },
  },
});
const [seed, steps, warmUpSteps] = [values.seed, values.steps, values["warm-up"]].map(Number) as [
  number,
  number,
  number,
];
const log = (line: string) => void console.error(line);
const { before, after, rewards, seconds } = await trainAgent({ seed, steps, warmUpSteps, log });
if (values.json) console.log(JSON.stringify({ seed, before, after, rewards, seconds }));
else {
  const percent = (share: number) => `${(100 * share).toFixed(0)} %`;
  console.log(
    `The agent solved ${percent(before)} of the test tasks after the warm-up, and ${percent(after)} after training.`,
  );
  console.log(`Warm-up ${seconds.warmUp.toFixed(0)} s, training ${seconds.training.toFixed(0)} s.`);
}
