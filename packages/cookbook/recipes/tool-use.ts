/**
 * Tools: the model learns to call a calculator instead of guessing. The examples have both calls and guesses; the reward for
 * right answers then favours calls. A tool is a plain function with a validator of its arguments (zod, Valibot, ArkType, or by hand as here).
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
/** Your tool goes here. */
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
  metric: "share of sums answered correctly, after examples with and without the tool, and after the reward",
  async run(task) {
    const { chat, tokenizer, seed, signal = new AbortController().signal } = task;
    // Your reward goes here: `check` gets the answer that follows the calls.
    const problem = (sum: Numbers) =>
      toolEnv({
        ...{ chat, tokenizer, tools: [add], maxTokens: 30, maxCalls: 1, question: question(sum) },
        check: (answer) => answer === String(sum.a + sum.b),
      });
    const all = pairs(600, seed);
    const score = async (sampler: typeof task.base) => {
      const { groups } = await rolloutGroups(all.slice(0, 100).map(problem), { sampler, groupSize: 1, seed: 7 });
      return groups.reduce((sum, { totalRewards: [reward = 0] }) => sum + reward, 0) / groups.length;
    };

    // Prompts as the template renders them, with possible answers: a guess, or a call followed by its result.
    const tools = [add.definition];
    const guess = (sum: Numbers) => {
      const prompt = chat.render([{ role: "user", content: question(sum) }], { tools }).text;
      return [{ prompt, completion: String(sum.a + sum.b) }];
    };
    const callFirst = async (sum: Numbers) => {
      const asked = { role: "user", content: question(sum) };
      const call = { name: "add", arguments: JSON.stringify(sum) };
      const [{ content } = { content: "" }] = await callTools([add], [call], signal);
      const called = chat.templateReadsTools
        ? { role: "assistant", content: "", tool_calls: [{ type: "function", function: call }] }
        : { role: "assistant", content: `{"name": "add", "arguments": {"a": ${sum.a}, "b": ${sum.b}}}` }; // parsed as a call
      const prompt = chat.render([asked], { tools }).text;
      const withResult = chat.render([asked, called, { role: "tool", name: "add", content }], { tools }).text;
      const [written = ""] = withResult.slice(prompt.length).split(tokenizer.decode(tokenizer.eosTokenIds.slice(0, 1)));
      return [
        { prompt, completion: written },
        { prompt: withResult, completion: content },
      ];
    };
    const shown = [...all.slice(100, 190).map(guess), ...(await Promise.all(all.slice(190, 300).map(callFirst)))];

    const learning = { rank: 16, learningRate: task.learningRate(3e-3) };
    const data = prepareExamples(shown.flat(), tokenizer);
    const examples = runSupervised({ ...task.stage("form"), ...learning, data, epochs: 2, maxSteps: task.steps(60) });
    const form = await task.follow("form", examples);
    const before = await score(form.sampler);
    const loop = runReinforcement({
      ...{ ...task.stage("rl"), from: form.statePath, environments: all.slice(300).map(problem) },
      ...{ steps: task.steps(5), groupsPerStep: 12, groupSize: 6, rank: 16, learningRate: task.learningRate(5e-4) },
    });
    const { sampler } = await task.follow("rl", loop);
    const asked = all.slice(0, 3).map((sum) => {
      return { kind: "chat", messages: [{ role: "user", content: question(sum) }], tools } as const;
    });
    return { before, after: await score(sampler), answers: await task.compare(sampler, asked, form.sampler) };
  },
});
