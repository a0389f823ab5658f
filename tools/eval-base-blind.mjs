// Blind judgements of the bundled model. `node tools/eval-base-blind.mjs make stories|pirate` samples through the engine and
// writes two files to tools/pretrain/run/blind: NAME-items.json, which readers judge without knowing what is what, and
// NAME-key.json, which they leave closed. Reader N writes NAME-judged-N.json (item number to verdict) and, if they like,
// NAME-reasons-N.json; `… score NAME` opens the key, counts each reader's verdicts and says where readers differ.
//
// stories: is the excerpt (80 words and up to the end of the sentence) coherent? Fifty stories of the model, hidden among
// controls that share no sentence with them: other stories of the model put out of order or spliced, and real stories of
// the teacher, which show how strict the reader is. `--earlier FOLDER` adds as much from other weights, told from the same
// openings, so that one reader judges both by one measure. pirate: which of two answers did the fine-tuned model give?
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { datasets, modelPath } from "@tinklet/base-model";
import { openEngine } from "@tinklet/engine";
import { seededRandom } from "@tinklet/wire/entropy";
import { fineTune, readMessages, shuffled } from "../bench/base-model/recipes.mjs";
import { complete, prompts } from "./eval-base-sampling.mjs";

const STORIES = 50; // of the eighty openings; the sentences of the other thirty make the controls
const REAL = 15;
// What generation_config.json names.
const STORY_SAMPLING = { maxTokens: 320, temperature: 0.6, seed: 9000 };
// What `tinklet quickstart` samples with.
const QUICKSTART_SAMPLING = { maxTokens: 48, temperature: 0.7 };
const near = (path) => fileURLToPath(new URL(path, import.meta.url));
const FOLDER = near("pretrain/run/blind/");
const fileOf = (name, part) => `${FOLDER}${name}-${part}.json`;
const read = (path) => JSON.parse(readFileSync(path, "utf8"));
const write = (path, value) => writeFileSync(path, `${JSON.stringify(value, null, 1)}\n`);

const withEngine = async (folder, use) => {
  const engine = await openEngine(folder, { onNotice: console.error });
  try {
    return await use(engine);
  } finally {
    await engine.close();
  }
};

const sentencesOf = (text) =>
  text
    .replace(/\s+/g, " ")
    .trim()
    .split(/(?<=[.!?]["']?) (?=["'A-Z])/);
const words = (text) => text.split(" ").length;

/** Whole sentences from the start until there are at least `least` words; fewer when the text ends before. */
const excerpt = (sentences, least = 80) => {
  const taken = [];
  for (const sentence of sentences) {
    if (words(taken.join(" ")) >= least) break;
    taken.push(sentence);
  }
  return taken;
};

/** Items in a random order, numbered from 1, and what each of them is. */
const hide = (name, items, random) => {
  const order = shuffled(items, random);
  write(fileOf(name, "items"), Object.fromEntries(order.map(({ shown }, i) => [i + 1, shown])));
  write(fileOf(name, "key"), Object.fromEntries(order.map(({ truth }, i) => [i + 1, truth])));
  console.log(`${order.length} items in ${fileOf(name, "items")}`);
};

/** Fifty stories of some weights and twenty controls made of others. */
const storiesOf = (folder, whose) =>
  withEngine(folder, async (engine) => {
    const random = seededRandom(80);
    const openings = read(`${FOLDER}openings.json`);
    const encoded = await Promise.all(openings.map(prompts(engine).plain));
    const made = await complete(engine, encoded, STORY_SAMPLING);
    const told = openings.map((opening, i) => sentencesOf(opening + made[i].text));
    const stories = told.slice(0, STORIES).map((sentences) => ({
      sentences: excerpt(sentences),
      truth: `story of ${whose}`,
    }));
    const others = told.slice(STORIES);
    const reordered = others.slice(0, 10).map((sentences) => {
      const [first, ...rest] = excerpt(sentences);
      return { sentences: [first, ...shuffled(rest, random)], truth: "control: sentences out of order" };
    });
    const spliced = Array.from({ length: 10 }, (_, i) => {
      const [from, into] = [others[10 + 2 * i], others[11 + 2 * i]];
      const rest = into.slice(Math.floor(into.length / 2));
      return {
        sentences: excerpt([...excerpt(from, 40), ...rest]),
        truth: "control: one story's start, another's end",
      };
    });
    return [...stories, ...reordered, ...spliced];
  });

const makeStories = async (earlier) => {
  const teacher = read(near("pretrain/heldout.json"))
    .stories.slice(0, REAL)
    .map((text) => ({ sentences: excerpt(sentencesOf(text)), truth: "story of the teacher" }));
  const items = [
    ...(await storiesOf(modelPath, "these weights")),
    ...(earlier === undefined ? [] : await storiesOf(earlier, "the earlier weights")),
    ...teacher,
  ].map(({ sentences, truth }) => ({ shown: sentences.join(" "), truth }));
  hide("stories", items, seededRandom(81));
};

const makePirate = () =>
  withEngine(modelPath, async (engine) => {
    const random = seededRandom(84);
    const { adapterId } = await fineTune(engine, { ...datasets.pirate, seed: 1 });
    const questions = readMessages(datasets.pirate.heldout).map(([user]) => user.content);
    const encoded = await Promise.all(questions.map((question) => prompts(engine).ask(question)));
    const before = await complete(engine, encoded, { ...QUICKSTART_SAMPLING, seed: 300 });
    const after = await complete(engine, encoded, { ...QUICKSTART_SAMPLING, seed: 400, adapter: adapterId });
    const pairs = questions.map((question, i) => {
      const tuned = random() < 0.5 ? "A" : "B";
      const [a, b] = tuned === "A" ? [after[i], before[i]] : [before[i], after[i]];
      return { shown: { question, A: a.text.trim(), B: b.text.trim() }, truth: tuned };
    });
    hide("pirate", pairs, random);
  });

/** Counts each reader's verdicts by what the items were. Every reader must have judged every item. */
const score = (name, counts) => {
  const [items, key] = ["items", "key"].map((part) => read(fileOf(name, part)));
  const files = readdirSync(FOLDER).filter((file) => file.startsWith(`${name}-judged-`));
  const readers = files.sort().map((file) => read(FOLDER + file));
  if (readers.length === 0) throw new Error(`${name}: no ${name}-judged-N.json`);
  const totals = {};
  for (const [number, truth] of Object.entries(key)) {
    readers.forEach((judged, reader) => {
      if (judged[number] === undefined) throw new Error(`${files[reader]}: no judgement of ${number}`);
      const [group, good] = counts(truth, judged[number], items[number]);
      totals[group] ??= { good: readers.map(() => 0), all: 0 };
      totals[group].good[reader] += good ? 1 : 0;
      totals[group].all += reader === 0 ? 1 : 0;
    });
  }
  for (const [group, { good, all }] of Object.entries(totals)) console.log(`${group}: ${good.join(", ")} of ${all}`);
  const [first, ...others] = readers;
  const differ = Object.keys(key).filter((number) => others.some((judged) => judged[number] !== first[number]));
  if (others.length > 0) console.log(`readers differ on ${differ.length} of ${Object.keys(key).length}: ${differ}`);
};

// A story that ended before its eightieth word is not coherent over eighty words, whatever the reader said.
const coherence = (truth, verdict, shown) => [
  `${truth}, judged coherent`,
  verdict === "coherent" && words(shown) >= 80,
];
const toldApart = (truth, verdict) => ["pairs told apart", verdict === truth];
const tests = {
  stories: { make: makeStories, counts: coherence },
  pirate: { make: makePirate, counts: toldApart },
};

const { values, positionals } = parseArgs({ allowPositionals: true, options: { earlier: { type: "string" } } });
const [command, name] = positionals;
const test = tests[name];
if (command === "make" && test !== undefined) {
  await test.make(values.earlier);
} else if (command === "score" && test !== undefined) {
  score(name, test.counts);
} else {
  console.error("usage: node tools/eval-base-blind.mjs make|score stories|pirate [--earlier FOLDER]");
  process.exitCode = 2;
}
