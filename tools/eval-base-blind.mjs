// Blind judgements of the bundled model. `node tools/eval-base-blind.mjs make NAME` samples through the engine and writes two
// files to tools/pretrain/run/blind: NAME-items.json, which a reader judges without knowing what is what, and NAME-key.json,
// which the reader leaves closed. The reader writes NAME-judged.json (item number to verdict); `… score NAME` opens the key
// and counts. Names are stories-0.6 and stories-0.3 (stories at those temperatures, no opening in both) and pirate.
//
// stories: is the excerpt (80 words and up to the end of the sentence) coherent? Fifty stories of the model, hidden among
// controls that share no sentence with them: other stories of the model put out of order or spliced, and real stories of
// the teacher, which show how strict the reader is. pirate: which of two answers did the fine-tuned model give?
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { datasets, modelPath } from "@tinklet/base-model";
import { openEngine } from "@tinklet/engine";
import { fineTune, randomFrom, readMessages, shuffled } from "../bench/base-model/recipes.mjs";
import { complete, prompts } from "./eval-base-sampling.mjs";

const STORIES = 50;
const OTHERS = 30; // stories whose sentences make the controls
const REAL = 15;
// What `tinklet quickstart` samples with.
const QUICKSTART_SAMPLING = { maxTokens: 48, temperature: 0.7 };
/** By temperature, which share of the openings and of the teacher's stories a test takes: no two have any in common. */
const ROUNDS = { "stories-0.6": 0, "stories-0.3": 1 };
const near = (path) => fileURLToPath(new URL(path, import.meta.url));
const fileOf = (name, part) => near(`pretrain/run/blind/${name}-${part}.json`);
const read = (path) => JSON.parse(readFileSync(path, "utf8"));
const write = (path, value) => writeFileSync(path, `${JSON.stringify(value, null, 1)}\n`);

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

const makeStories = async (engine, name) => {
  const random = randomFrom(80);
  const round = ROUNDS[name];
  const temperature = Number(name.split("-")[1]);
  const share = (all, size) => all.slice(round * size, (round + 1) * size);
  const openings = share(read(near("pretrain/run/blind/openings.json")), STORIES + OTHERS);
  const encoded = await Promise.all(openings.map(prompts(engine).plain));
  const made = await complete(engine, encoded, { maxTokens: 320, temperature, seed: 9000 });
  const texts = openings.map((opening, i) => opening + made[i].text);
  write(fileOf(name, "texts"), { stories: texts.slice(0, STORIES), others: texts.slice(STORIES) });
  const told = texts.map(sentencesOf);
  const story = told.slice(0, STORIES).map((sentences) => ({ sentences: excerpt(sentences), truth: "story" }));
  const others = told.slice(STORIES);
  const reordered = others.slice(0, 10).map((sentences) => {
    const [first, ...rest] = excerpt(sentences);
    return { sentences: [first, ...shuffled(rest, random)], truth: "control: sentences out of order" };
  });
  const spliced = Array.from({ length: 10 }, (_, i) => {
    const [from, into] = [others[10 + 2 * i], others[11 + 2 * i]];
    const start = excerpt(from, 40);
    const rest = into.slice(Math.floor(into.length / 2));
    return { sentences: excerpt([...start, ...rest]), truth: "control: one story's start, another's end" };
  });
  const teacher = share(read(near("pretrain/heldout.json")).stories, REAL).map((text) => ({
    sentences: excerpt(sentencesOf(text)),
    truth: "teacher",
  }));
  const items = [...story, ...reordered, ...spliced, ...teacher];
  hide(
    name,
    items.map(({ sentences, truth }) => ({ shown: sentences.join(" "), truth })),
    random,
  );
};

const makePirate = async (engine) => {
  const random = randomFrom(82);
  const { adapterId } = await fineTune(engine, { ...datasets.pirate, seed: 1 });
  const questions = readMessages(datasets.pirate.heldout).map(([user]) => user.content);
  const encoded = await Promise.all(questions.map((question) => prompts(engine).ask(question)));
  const before = await complete(engine, encoded, { ...QUICKSTART_SAMPLING, seed: 100 });
  const after = await complete(engine, encoded, { ...QUICKSTART_SAMPLING, seed: 200, adapter: adapterId });
  const pairs = questions.map((question, i) => {
    const tuned = random() < 0.5 ? "A" : "B";
    const [a, b] = tuned === "A" ? [after[i], before[i]] : [before[i], after[i]];
    return { shown: { question, A: a.text.trim(), B: b.text.trim() }, truth: tuned };
  });
  hide("pirate", pairs, random);
};

/** Counts verdicts by what the items were. Every item must have been judged. */
const score = (name, counts) => {
  const [items, key, judged] = ["items", "key", "judged"].map((part) => read(fileOf(name, part)));
  const missing = Object.keys(key).filter((number) => judged[number] === undefined);
  if (missing.length > 0) throw new Error(`${name}: no judgement of ${missing.join(", ")}`);
  const totals = {};
  for (const [number, truth] of Object.entries(key)) {
    const [group, good] = counts(truth, judged[number], items[number]);
    totals[group] ??= [0, 0];
    totals[group][0] += good ? 1 : 0;
    totals[group][1] += 1;
  }
  for (const [group, [good, all]] of Object.entries(totals)) console.log(`${group}: ${good} of ${all}`);
};

// A story that ended before its eightieth word is not coherent over eighty words, whatever the reader said.
const coherence = (truth, verdict, shown) => [
  `${truth}, judged coherent`,
  verdict === "coherent" && words(shown) >= 80,
];
const toldApart = (truth, verdict) => ["pairs told apart", verdict === truth];
const tests = {
  "stories-0.6": { make: makeStories, counts: coherence },
  "stories-0.3": { make: makeStories, counts: coherence },
  pirate: { make: makePirate, counts: toldApart },
};

const [command, name] = process.argv.slice(2);
const test = tests[name];
if (command === "make" && test !== undefined) {
  const engine = await openEngine(modelPath, { onNotice: console.error });
  await test.make(engine, name);
  await engine.close();
} else if (command === "score" && test !== undefined) {
  score(name, test.counts);
} else {
  console.error(`usage: node tools/eval-base-blind.mjs make|score ${Object.keys(tests).join("|")}`);
  process.exitCode = 2;
}
