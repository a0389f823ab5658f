// The training program that the page and Node both run: the quickstart's data and settings.

export const settings = { rank: 16, seed: 1, learningRate: 2e-3, batchSize: 8 };
export const question = "What is the capital of Spain?";
export const sampling = { maxTokens: 24, temperature: 0, seed: 1 };
/** Not greedy, so that a difference in any log-prob can change a token. */
export const drawn = { maxTokens: 24, temperature: 1, seed: 5 };

/** A conversation as tokens, targets and weights: the answer is learned, the question is not. */
export function exampleOf(tokenizer, messages) {
  const whole = tokenizer.applyChatTemplate(messages, { addGenerationPrompt: false });
  const asked = tokenizer.applyChatTemplate(messages.slice(0, 1), { addGenerationPrompt: true });
  return {
    tokens: whole.slice(0, -1),
    targets: whole.slice(1),
    weights: whole.slice(1).map((_, i) => (i + 1 < asked.length ? 0 : 1)),
  };
}

/** The examples of step `step`, in the order of the file. */
export function batchAt(examples, step) {
  const { batchSize } = settings;
  return Array.from({ length: batchSize }, (_, i) => examples[(step * batchSize + i) % examples.length]);
}

export const examplesOf = (tokenizer, text) =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => exampleOf(tokenizer, JSON.parse(line).messages));

export const promptOf = (tokenizer) =>
  tokenizer.applyChatTemplate([{ role: "user", content: question }], { addGenerationPrompt: true });
