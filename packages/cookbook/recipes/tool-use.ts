/**
 * Tools: the model learns to call a calculator instead of guessing. A few examples show the form of a call; the reward for right
 * answers does the rest. A tool is a plain function with a validator of its arguments (zod, Valibot, ArkType, or by hand as here).
 */
import {
  callTools,
  defineRecipe,
  prepareExamples,
  rolloutGroups,
  runReinforcement,
  runSupervised,
  type StandardSchema,
  seededRandom,
  tool,
  toolEnv,
} from "@tinklet/cookbook";

interface Numbers {
  readonly a: number;
  readonly b: number;
}
const numbers: StandardSchema<Numbers> = {
  "~standard": {
    version: 1,
    vendor: "by hand",
    validate: (value) => {
      const { a, b } = (value ?? {}) as Numbers;
      return Number.isInteger(a) && Number.isInteger(b)
        ? { value: { a, b } }
        : { issues: [{ message: "a and b must be integers" }] };
    },
  },
};
const add = tool({
  name: "add",
  parameters: numbers,
  jsonSchema: { a: "integer", b: "integer" },
  run: ({ a, b }) => String(a + b),
});

function pairs(count: number, seed: number): Numbers[] {
  const random = seededRandom(seed);
  const draw = () => 10 + Math.floor(random() * 90);
  return Array.from({ length: count }, () => ({ a: draw(), b: draw() }));
}
const question = ({ a, b }: Numbers) => `What is ${a} + ${b}?`;

export default defineRecipe({
  about: "tool use: a calculator instead of a guess",
  metric: "share of sums answered rightly with the tool at hand",
  async run(task) {
    const { base, chat, tokenizer, seed } = task;
    const problem = (sum: Numbers) =>
      toolEnv({
        ...{ chat, tokenizer, tools: [add], maxTokens: 40, maxCalls: 1, question: question(sum) },
        check: (answer) => ({ reward: Number(answer === String(sum.a + sum.b)) }),
      });
    const all = pairs(600, seed);
    const score = async (sampler: typeof base) => {
      const { groups } = await rolloutGroups(all.slice(0, 100).map(problem), { sampler, groupSize: 1, seed: 7 });
      return groups.reduce((sum, { totalRewards: [reward = 0] }) => sum + reward, 0) / groups.length;
    };

    // Conversations with a call, as the model's template writes them.
    const signal = new AbortController().signal;
    const shown = await Promise.all(
      all.slice(100, 280).map(async (sum) => {
        const asked = { role: "user", content: question(sum) };
        const call = { name: "add", arguments: JSON.stringify(sum) };
        const [answer] = await callTools([add], [call], signal);
        const called = { role: "assistant", content: "", tool_calls: [{ type: "function", function: call }] };
        const result = { role: "tool", name: "add", content: answer?.content ?? "" };
        const tools = [add.definition];
        const first = chat.render([asked], { tools }).text;
        const second = chat.render([asked, called, result], { tools }).text;
        const end = tokenizer.decode(chat.endTokenIds.slice(-1));
        const written = second.slice(first.length);
        const callText = written.slice(0, written.indexOf(end));
        return [
          { prompt: first, completion: callText },
          { prompt: second, completion: String(sum.a + sum.b) },
        ];
      }),
    );
    const before = await score(base);
    const data = prepareExamples(shown.flat(), tokenizer);
    const training = { rank: 16, learningRate: task.learningRate(2e-3), maxSteps: task.steps(45) };
    const form = await task.follow("form", runSupervised({ ...task.stage("form"), ...training, data }));
    const between = await score(form.sampler);
    const loop = runReinforcement({
      ...task.stage("rl"),
      from: form.statePath,
      environments: all.slice(280).map(problem),
      ...{ steps: task.steps(8), groupsPerStep: 16, groupSize: 6, rank: 16, learningRate: task.learningRate(1e-3) },
    });
    return { before, between, after: await score((await task.follow("rl", loop)).sampler) };
  },
});
