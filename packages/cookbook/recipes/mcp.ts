/**
 * MCP: the model learns to ask a server that speaks the Model Context Protocol instead of guessing. The examples have both calls and
 * guesses; the reward for right answers then favours calls. Needs the package `@modelcontextprotocol/sdk`.
 */
import { createRequire } from "node:module";
import {
  callTools,
  defineRecipe,
  permutation,
  prepareExamples,
  type RecipeScore,
  type RecipeTask,
  rolloutGroups,
  runReinforcement,
  runSupervised,
  seededRandom,
} from "@tinklet/cookbook";
import { connectMcp, type McpServers, mcpEnv } from "@tinklet/cookbook/mcp";

/** Your servers go here: `{ command, args }` for a process, `{ url }` for streamable HTTP. This one counts the things in a shop. */
const server = {
  command: process.execPath,
  args: [createRequire(import.meta.url).resolve("@tinklet/cookbook/servers/stock.mjs")],
};
const adjectives = "red blue green big small old new warm cold soft hard round long short dark light".split(" ");
const things = "apples hats cups books balls boxes dolls chairs lamps coats shoes bells kites boats drums socks".split(
  " ",
);
const question = (item: string) => `How many ${item} are there?`;

export default defineRecipe({
  about: "tools of an MCP server: a question to it instead of a guess",
  metric: "share of questions answered correctly, after examples with and without the server, and after the reward",
  async run(task) {
    // The server keeps no state, so that all rollouts can share a process.
    const servers = connectMcp([server], { isolation: "shared" });
    try {
      return await learn(task, servers);
    } finally {
      await servers.close();
    }
  },
});

async function learn(task: RecipeTask, servers: McpServers): Promise<RecipeScore> {
  const { chat, tokenizer, seed, signal = new AbortController().signal } = task;
  const random = seededRandom(seed);
  const { tools } = await servers.open(signal);
  const call = async (item: string) => {
    const called = { name: "stock", arguments: JSON.stringify({ item }) };
    const [{ content } = { content: "" }] = await callTools(tools, [called], signal);
    return { item, called, content };
  };
  const names = adjectives.flatMap((adjective) => things.map((thing) => `${adjective} ${thing}`));
  const items = await Promise.all(permutation(names.length, seed).map((index) => call(names[index] as string)));
  type Item = (typeof items)[number];

  // Your reward goes here: `grade` gets the answer that follows the calls.
  const problem = ({ item, content }: Item) =>
    mcpEnv({
      ...{ chat, tokenizer, servers, maxTokens: 30, maxCalls: 1, task: question(item) },
      grade: (answer) => answer === content,
    });
  const score = async (sampler: typeof task.base) => {
    const { groups } = await rolloutGroups(items.slice(0, 80).map(problem), { sampler, groupSize: 1, seed: 7 });
    return groups.reduce((sum, { totalRewards: [reward = 0] }) => sum + reward, 0) / groups.length;
  };

  // Prompts as the template renders them, with possible answers: a guess, or a call followed by its result.
  const definitions = tools.map(({ definition }) => definition);
  const asked = ({ item }: Item) => [{ role: "user", content: question(item) }];
  const rendered = (messages: Parameters<typeof chat.render>[0]) => chat.render(messages, { tools: definitions }).text;
  const guess = (of: Item) => [{ prompt: rendered(asked(of)), completion: String(10 + Math.floor(random() * 90)) }];
  const callFirst = (of: Item) => {
    const { called, content, item } = of;
    const spoken = chat.templateReadsTools
      ? { role: "assistant", content: "", tool_calls: [{ type: "function", function: called }] }
      : { role: "assistant", content: `{"name": "stock", "arguments": {"item": "${item}"}}` }; // parsed as a call
    const prompt = rendered(asked(of));
    const withResult = rendered([...asked(of), spoken, { role: "tool", name: "stock", content }]);
    const [written = ""] = withResult.slice(prompt.length).split(tokenizer.decode(tokenizer.eosTokenIds.slice(0, 1)));
    return [
      { prompt, completion: written },
      { prompt: withResult, completion: content },
    ];
  };
  const shown = [...items.slice(80, 130).flatMap(guess), ...items.slice(130, 190).flatMap(callFirst)];

  const learning = { rank: 16, learningRate: task.learningRate(3e-3) };
  const data = prepareExamples(shown, tokenizer);
  const form = runSupervised({ ...task.stage("form"), ...learning, data, epochs: 4, maxSteps: task.steps(60) });
  const formed = await task.follow("form", form);
  const before = await score(formed.sampler);
  const loop = runReinforcement({
    ...{ ...task.stage("rl"), from: formed.statePath, environments: items.slice(190).map(problem) },
    ...{ steps: task.steps(6), groupsPerStep: 12, groupSize: 6, rank: 16, learningRate: task.learningRate(5e-4) },
  });
  const { sampler } = await task.follow("rl", loop);
  const questions = items.slice(0, 3).map((of) => ({ kind: "chat", messages: asked(of), tools: definitions }) as const);
  return { before, after: await score(sampler), answers: await task.compare(sampler, questions, formed.sampler) };
}
