// What the bundled model can do in a conversation, on the lists in tools/pretrain/eval: everyday questions, instructions, tool calls, JSON
// by schema (not constrained), and questions of customers before and after a fine-tune on 40 conversations. Replies are sampled greedily
// through our own engine and graded by graders.mjs. `npm run eval:base` runs this; `node tools/eval-base-abilities.mjs [--model FOLDER]`
// runs it alone.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { modelPath } from "@tinklet/base-model";
import { openEngine } from "@tinklet/engine";
import { loadTokenizer } from "@tinklet/models";
import { createChat } from "@tinklet/models/chat";
import { seededRandom } from "@tinklet/wire/entropy";
import { encodePair, shuffled, supervised } from "../bench/base-model/recipes.mjs";
import { answers, follows, gradeCall, gradeJson, gradeResult } from "./pretrain/eval/graders.mjs";

const read = (name) =>
  JSON.parse(readFileSync(fileURLToPath(new URL(`pretrain/eval/${name}.json`, import.meta.url)), "utf8"));
const share = (flags) => flags.filter(Boolean).length / flags.length;

/** Asks a model through its chat template, as the chat endpoints do. @param {string} folder */
const conversation = async (engine, folder) => {
  const tokenizer = await loadTokenizer(folder);
  const chat = createChat(tokenizer);
  const replyTo = async ({ messages, tools = [] }, { maxTokens, adapter }) => {
    const rendered = chat.render(messages, { tools });
    const prompt = chat.encode(rendered);
    const params = { maxTokens, temperature: 0, seed: 1, stop: [...chat.endTokenIds] };
    const { sequences } = await engine.sample({ prompt, params, ...(adapter && { adapter }) });
    return { ...chat.parse(sequences[0].tokens, rendered), promptTokens: prompt.length };
  };
  return {
    format: chat.format.name,
    ask: (requests, options) => Promise.all(requests.map((request) => replyTo(request, options))),
  };
};

const user = (content) => ({ messages: [{ role: "user", content }] });

const everyday = async ({ ask }) => {
  const questions = read("everyday");
  const replies = await ask(
    questions.map((question) => user(question.ask)),
    { maxTokens: 60 },
  );
  const rows = questions.map((question, i) => ({
    ask: question.ask,
    reply: replies[i].text,
    right: answers(replies[i].text, question),
  }));
  return { right: share(rows.map(({ right }) => right)), rows };
};

const instructions = async ({ ask }) => {
  const list = read("instructions");
  const replies = await ask(
    list.map((instruction) => user(instruction.ask)),
    { maxTokens: 120 },
  );
  const rows = list.map((instruction, i) => ({
    ask: instruction.ask,
    reply: replies[i].text,
    right: follows(replies[i].text, instruction),
  }));
  return { right: rows.filter(({ right }) => right).length, of: rows.length, rows };
};

/** Two-turn tasks continue from the expected call, so that each turn is graded independently of the other; a task is right if both are. */
const toolCalls = async ({ ask }) => {
  const { tools, tasks } = read("tool-calls");
  const offered = (task) => task.tools.map((name) => ({ type: "function", function: { name, ...tools[name] } }));
  const first = await ask(
    tasks.map((task) => ({ ...user(task.ask), tools: offered(task) })),
    { maxTokens: 100 },
  );
  const firstOf = (value) => (Array.isArray(value) ? value[0] : value);
  const twoTurns = tasks.filter(({ result }) => result !== undefined);
  const second = await ask(
    twoTurns.map((task) => {
      const callArguments = Object.fromEntries(
        Object.entries(task.expect.arguments).map(([key, value]) => [key, firstOf(value)]),
      );
      const call = { id: "call_1", type: "function", function: { name: task.expect.name, arguments: callArguments } };
      const messages = [
        { role: "user", content: task.ask },
        { role: "assistant", content: "", tool_calls: [call] },
        { role: "tool", name: task.expect.name, tool_call_id: "call_1", content: JSON.stringify(task.result) },
      ];
      return { messages, tools: offered(task) };
    }),
    { maxTokens: 100 },
  );
  const rows = tasks.map((task, i) => {
    const { text, toolCalls: calls, promptTokens } = first[i];
    const called = gradeCall(first[i], task, tools);
    const row = { ask: task.ask, tools: task.tools, text, calls, promptTokens, ...called };
    const at = twoTurns.indexOf(task);
    if (at < 0) return row;
    const told = gradeResult(second[at], task);
    return { ...row, answer: second[at].text, valid: called.valid && told.valid, right: called.right && told.right };
  });
  const kind = (wanted) => rows.filter((_, i) => wanted(tasks[i]));
  const rightOf = (some) => `${some.filter(({ right }) => right).length} of ${some.length}`;
  return {
    valid: share(rows.map(({ valid }) => valid)),
    right: share(rows.map(({ right }) => right)),
    oneTurn: rightOf(kind((task) => typeof task.expect === "object" && task.result === undefined)),
    twoTurns: rightOf(kind((task) => task.result !== undefined)),
    refusals: rightOf(kind((task) => task.expect === "refusal")),
    talk: rightOf(kind((task) => task.expect === "talk")),
    longestPrompt: Math.max(...rows.map(({ promptTokens }) => promptTokens)),
    rows,
  };
};

const jsonBySchema = async ({ ask }) => {
  const list = read("json-schemas");
  const prompt = ({ text, schema }) => `${text}\nAnswer with JSON that fits this schema: ${JSON.stringify(schema)}`;
  const replies = await ask(
    list.map((task) => user(prompt(task))),
    { maxTokens: 120 },
  );
  const rows = list.map((task, i) => ({
    text: task.text,
    reply: replies[i].text,
    ...gradeJson(replies[i].text, task),
  }));
  return { valid: share(rows.map(({ valid }) => valid)), right: share(rows.map(({ right }) => right)), rows };
};

/** The quickstart's LoRA settings; 12 epochs over 40 conversations are 60 steps. */
const tuning = { rank: 16, epochs: 12, batchSize: 8, learningRate: 2e-3, seeds: [1, 2, 3] };

const support = async (engine, { ask }) => {
  const { conversations, questions } = read("support");
  const message = (content, i) => ({ role: i % 2 === 0 ? "user" : "assistant", content });
  const data = (await Promise.all(conversations.map((turns) => encodePair(engine, turns.map(message))))).map(
    supervised,
  );
  const grade = async (options) => {
    const replies = await ask(
      questions.map((question) => user(question.ask)),
      { maxTokens: 60, ...options },
    );
    return questions.map((question, i) => ({
      ask: question.ask,
      reply: replies[i].text,
      right: answers(replies[i].text, question),
    }));
  };
  const before = await grade({});
  const after = [];
  for (const seed of tuning.seeds) {
    const { adapterId } = await engine.createAdapter({ rank: tuning.rank, seed });
    const random = seededRandom(seed);
    for (let epoch = 0; epoch < tuning.epochs; epoch++) {
      const order = shuffled(data, random);
      for (let at = 0; at < order.length; at += tuning.batchSize) {
        const progress = (epoch + at / order.length) / tuning.epochs; // the rate falls evenly to 0
        const batch = { data: order.slice(at, at + tuning.batchSize), lossFn: "cross_entropy" };
        const pass = engine.forwardBackward(adapterId, batch);
        await Promise.all([pass, engine.optimStep(adapterId, { learningRate: tuning.learningRate * (1 - progress) })]);
      }
    }
    after.push(await grade({ adapter: adapterId }));
  }
  const right = (rows) => share(rows.map((row) => row.right));
  return {
    before: right(before),
    after: after.map(right),
    rows: before.map((row, i) => ({ ...row, after: after[0][i].reply, afterRight: after[0][i].right })),
  };
};

/** Runs every list on an open engine. @param {string} folder the model's folder, for its tokenizer */
export const abilities = async (engine, folder = modelPath) => {
  const model = await conversation(engine, folder);
  return {
    toolFormat: model.format,
    everyday: await everyday(model),
    instructions: await instructions(model),
    toolCalls: await toolCalls(model),
    jsonBySchema: await jsonBySchema(model),
    support: await support(engine, model),
  };
};

const percent = (value) => `${(100 * value).toFixed(1)} %`;

/** The figures as rows of the table that `npm run eval:base` prints. */
export const abilityRows = (found) => [
  ["everyday questions, right (of 200)", percent(found.everyday.right)],
  ["instructions followed", `${found.instructions.right} of ${found.instructions.of}`],
  [
    `tool calls (${found.toolFormat} format), valid / right (of 100)`,
    `${percent(found.toolCalls.valid)} / ${percent(found.toolCalls.right)}`,
  ],
  [
    "tool calls, right: one turn / two turns / refusals / small talk",
    [found.toolCalls.oneTurn, found.toolCalls.twoTurns, found.toolCalls.refusals, found.toolCalls.talk].join(" / "),
  ],
  ["tool calls, longest prompt in tokens", String(found.toolCalls.longestPrompt)],
  [
    "JSON by schema, valid / right (of 40)",
    `${percent(found.jsonBySchema.valid)} / ${percent(found.jsonBySchema.right)}`,
  ],
  [
    "support questions, right: before / after fine-tuning (seeds 1, 2, 3)",
    `${percent(found.support.before)} / ${found.support.after.map(percent).join(", ")}`,
  ],
];

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { model: { type: "string" } } });
  const folder = values.model ?? modelPath;
  const engine = await openEngine(folder, { onNotice: console.error });
  const found = await abilities(engine, folder);
  for (const row of abilityRows(found)) console.log(`| ${row.join(" | ")} |`);
  if (positionals[0] !== undefined) writeFileSync(positionals[0], `${JSON.stringify(found, null, 1)}\n`);
  await engine.close();
}
