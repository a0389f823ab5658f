/**
 * A prompt distilled into weights: the model answers with facts in its prompt, and learns to give the same answers without them.
 * Put your own long prompt in place of the facts.
 */
import { defineRecipe, evaluate, prepareExamples, runSupervised, scored } from "@tinklet/cookbook";
import { ModelInput } from "@tinklet/sdk";

const people = ["Anna", "Tom", "Lily", "Sam", "Nora", "Ben", "Lucy", "Max"];
const things = ["boat", "kite", "ball", "hat", "book", "drum", "cake", "lamp"];
const facts = people.map((person, i) => ({
  person,
  thing: things[i] as string,
  text: `${person} has a ${things[i]}.`,
}));
const questions = [
  "What does NAME have?",
  "Tell me what NAME has.",
  "NAME has something. What does NAME have?",
  "What is it that NAME has?",
];

const items = facts.flatMap((fact, at) =>
  questions.map((question) => ({
    question: question.replaceAll("NAME", fact.person),
    thing: fact.thing,
    // The prompt that is distilled.
    prompt: [facts[(at + 3) % facts.length], fact].map((one) => one?.text).join(" "),
  })),
);
const known = scored({
  ...{ name: "without the prompt", items, maxTokens: 16 },
  score: (answer, { thing }) => Number(new RegExp(`\\b${thing}\\b`).test(answer)),
});

export default defineRecipe({
  about: "a prompt distilled into weights: answers without the prompt that was needed for them",
  metric: "share of questions answered correctly without the prompt",
  tasks: () => [known],
  async run(task) {
    const { base, chat, tokenizer, seed } = task;
    const score = async (sampler: typeof base) => (await evaluate(sampler, [known], { chat, tokenizer }))[0]?.mean ?? 0;

    // 1. The teacher answers with the prompt.
    const taught = await Promise.all(
      items.map(async ({ question, prompt }, index) => {
        const rendered = chat.render([{ role: "user", content: `${prompt} ${question}` }]);
        const samplingParams = { maxTokens: 16, stop: [...chat.endTokenIds], seed: seed * 1000 + index * 4 };
        const { sequences } = await base.sample(ModelInput.fromInts(chat.encode(rendered)), {
          numSamples: 4,
          samplingParams,
        });
        return sequences
          .map(({ tokens }) => chat.parse(tokens, rendered).text.trim())
          .filter((answer) => answer !== "")
          .map((answer) => ({
            messages: [
              { role: "user", content: question }, // 2. The student gets the question without it.
              { role: "assistant", content: answer },
            ],
          }));
      }),
    );
    const before = await score(base);
    const loop = runSupervised({
      ...task.stage("student"),
      data: prepareExamples(taught.flat(), tokenizer),
      ...{ rank: 16, learningRate: task.learningRate(2e-3), batchSize: 8, epochs: 4, maxSteps: task.steps(64) },
    });
    const { sampler } = await task.follow("student", loop);
    const answers = await task.compare(sampler, items.slice(0, 3));
    return { before, after: await score(sampler), examples: taught.flat().length, answers };
  },
});
