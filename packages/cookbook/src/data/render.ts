/**
 * From an example to tokens and loss weights, by the model's own chat template. The text is cut where a prompt ends in
 * sampling and each piece is encoded by itself, so that training has the same token boundaries as sampling.
 */

import { type Chat, createChat } from "@tinklet/models/chat";
import { type ChatMessage, Datum, InvalidInputError, ModelInput, type Tokenizer } from "@tinklet/sdk";
import { checkOptions, type OptionNames } from "@tinklet/wire/options";
import { DataError } from "./data-error.ts";
import type { Example, Place } from "./examples.ts";
import { type HistoryPolicies, type HistoryPolicy, historyPolicies, historyPolicyOf } from "./history.ts";

/** Which tokens carry weight in the loss: the last answer's, all answers', or every token. */
export type TrainOn = "last_answer" | "all_answers" | "everything";
export const trainOnChoices: readonly TrainOn[] = ["last_answer", "all_answers", "everything"];

/** An example as tokens. `weights[i]` belongs to `tokens[i]` as a target; the first token is never one. */
export interface Rendered {
  readonly tokens: readonly number[];
  readonly weights: readonly number[];
}

/** A datum of the loss `cross_entropy`. */
export type SupervisedDatum = Datum<"target_tokens" | "weights">;

/** Options of {@link renderExample}. */
export interface RenderOptions {
  /** Which tokens carry weight in the loss. @defaultValue "all_answers" */
  readonly trainOn?: TrainOn;
}

/** Options of {@link renderExamples}. */
export interface RenderAllOptions extends RenderOptions {
  /** For conversations whose earlier answers the template rewrites: one policy, or one for each family. @defaultValue {@link historyPolicies} */
  readonly history?: HistoryPolicy | HistoryPolicies;
}

/** Renders examples one after the other. */
export type RenderAll = (example: Example) => readonly Rendered[];

/**
 * Makes the function that renders examples for a model: each becomes one, or several where the template rewrites earlier
 * answers and several answers are learned. See {@link renderExample} for what an answer is.
 *
 * @throws InvalidInputError for an option that does not exist.
 *
 * @example
 * ```ts
 * const render = renderExamples(tokenizer, { history: { ...historyPolicies, hermes: "split" } });
 * const data = examples.flatMap(render).flatMap((one) => toDatum(one) ?? []);
 * ```
 */
export function renderExamples(tokenizer: Tokenizer, options: RenderAllOptions = {}): RenderAll {
  checkOptions("renderExamples", options, { trainOn: true, history: true });
  const { trainOn = "all_answers", history = historyPolicies } = options;
  checkTrainOn(trainOn);
  const policy = tokenizer.hasChatTemplate ? historyPolicyOf(tokenizer, history) : "detect"; // completions and plain texts only
  return (example) => rendered(example, tokenizer, trainOn, policy);
}

/**
 * Renders one example.
 *
 * A completion's answer is its completion, a plain text is all answer; both end with the model's end-of-text token. In a
 * conversation an answer is what the template writes for an `assistant` message, up to and including the token that ends
 * the turn.
 *
 * @throws InvalidInputError for a `trainOn` that does not exist; {@link DataError} when a conversation has no answer or the template rewrites earlier turns.
 */
export function renderExample(example: Example, tokenizer: Tokenizer, options: RenderOptions = {}): Rendered {
  checkOptions("renderExample", options, { trainOn: true });
  const { trainOn = "all_answers" } = options;
  checkTrainOn(trainOn);
  return rendered(example, tokenizer, trainOn, "refuse")[0] as Rendered;
}

function checkTrainOn(trainOn: TrainOn): void {
  if (!trainOnChoices.includes(trainOn))
    throw new InvalidInputError("trainOn", `must be one of ${trainOnChoices.join(", ")}, got ${String(trainOn)}`);
}

function rendered(example: Example, tokenizer: Tokenizer, trainOn: TrainOn, history: HistoryPolicy): Rendered[] {
  if (example.kind === "chat") return conversation(example, { tokenizer, trainOn, history });
  const pieces = new Pieces(tokenizer);
  const [prompt, answer] = example.kind === "text" ? ["", example.text] : [example.prompt, example.completion];
  pieces.add(tokenizer.encode(prompt), trainOn === "everything"); // with the BOS, where the model has one
  pieces.add([...tokenizer.encode(answer, { addSpecialTokens: false }), ...tokenizer.eosTokenIds.slice(0, 1)], true);
  return [pieces.trimmed()];
}

/** The prompt that asks for the answer to a conversation, rendered as in training. */
export function renderPrompt(messages: readonly ChatMessage[], tokenizer: Tokenizer): number[] {
  const chat = chatOf(tokenizer);
  return chat.encode(chat.render(messages));
}

const chats = new WeakMap<Tokenizer, Chat>();

/** The chat of a tokenizer, created once because that renders the template several times. */
function chatOf(tokenizer: Tokenizer): Chat {
  const known = chats.get(tokenizer) ?? createChat(tokenizer);
  chats.set(tokenizer, known);
  return known;
}

/** Tokens and their weights, collected piece by piece. */
class Pieces {
  readonly #tokens: number[] = [];
  readonly #weights: number[] = [];
  readonly tokenizer: Tokenizer;

  constructor(tokenizer: Tokenizer) {
    this.tokenizer = tokenizer;
  }

  add(tokens: readonly number[], weighted: boolean): void {
    for (const token of tokens) {
      this.#tokens.push(token);
      this.#weights.push(weighted ? 1 : 0);
    }
  }

  addText(text: string, weighted: boolean): void {
    if (text !== "") this.add(this.tokenizer.encode(text, { addSpecialTokens: false }), weighted);
  }

  /** An answer: text after the token that ends the turn (often a line break) is written by the template, not the model. */
  addAnswer(text: string): void {
    const tokens = this.tokenizer.encode(text, { addSpecialTokens: false });
    const ends = tokens.findLastIndex((token) => this.tokenizer.eosTokenIds.includes(token)) + 1 || tokens.length;
    this.add(tokens.slice(0, ends), true);
    this.add(tokens.slice(ends), false);
  }

  /** Without the tail that has no weight: nothing would be learned from it. */
  trimmed(): Rendered {
    const length = this.#weights.lastIndexOf(1) + 1;
    return { tokens: this.#tokens.slice(0, length), weights: this.#weights.slice(0, length) };
  }
}

interface ConversationOptions {
  readonly tokenizer: Tokenizer;
  readonly trainOn: TrainOn;
  readonly history: HistoryPolicy;
}

type ChatExample = Extract<Example, { readonly kind: "chat" }>;

/** The rendered text before an answer and up to its end. */
interface Answer {
  readonly index: number;
  readonly before: string;
  readonly after: string;
}

function conversation(example: ChatExample, options: ConversationOptions): Rendered[] {
  const { tokenizer, trainOn, history } = options;
  const { messages, tools = [] } = example;
  // The renderer of prompts at sampling time, so that tools, calls and results have the same text in training.
  const chat = chatOf(tokenizer);
  const render = (some: readonly ChatMessage[], addGenerationPrompt: boolean) =>
    chat.render(some, { tools, addGenerationPrompt }).text;
  if (trainOn === "everything") {
    const pieces = new Pieces(tokenizer);
    pieces.addText(render(messages, false), true);
    return [pieces.trimmed()];
  }
  const indices = messages.flatMap(({ role }, index) => (role === "assistant" ? [index] : []));
  if (indices.length === 0) {
    const roles = [...new Set(messages.map(({ role }) => JSON.stringify(role)))].join(", ");
    throw new DataError(
      example,
      `has no message with the role "assistant", so there is nothing to learn (its roles: ${roles})`,
    );
  }
  let left = (trainOn === "last_answer" ? indices.slice(-1) : indices).map(
    (index): Answer => ({
      index,
      before: render(messages.slice(0, index), true),
      after: render(messages.slice(0, index + 1), false),
    }),
  );
  const examples: Rendered[] = [];
  // From the end: the longest conversation has as many answers as the template kept; the next one has the remaining ones.
  for (let last = left.at(-1); last !== undefined; last = left.at(-1)) {
    const whole = last.after;
    const shown = left.filter(
      (answer) =>
        (answer === last || history !== "split") &&
        whole.startsWith(answer.after) &&
        answer.after.startsWith(answer.before),
    );
    const lost = left.find((answer) => !shown.includes(answer) && (answer === last || history === "refuse"));
    if (lost !== undefined) throw rewritten(lost, lost === last, example);
    examples.unshift(sequence(shown, tokenizer));
    left = left.filter((answer) => !shown.includes(answer));
  }
  return examples;
}

function rewritten({ index }: Answer, isLast: boolean, place: Place): DataError {
  if (isLast)
    return new DataError(
      place,
      `the chat template renders message ${index} differently from the prompt that asks for it`,
      {
        hint: "The prompt ends with the beginning of an answer, for example of reasoning, that this answer does not have.",
      },
    );
  return new DataError(place, `the chat template changes message ${index} when others follow it`, {
    hint: "Train on the last answer alone (last_answer), or on examples of their own for the others (renderExamples).",
  });
}

/** Answers of one text, each of which continues the one before it. */
function sequence(answers: readonly Answer[], tokenizer: Tokenizer): Rendered {
  const pieces = new Pieces(tokenizer);
  let at = 0; // characters of the text that are in the pieces
  for (const { before, after } of answers) {
    pieces.addText(before.slice(at), false);
    pieces.addAnswer(after.slice(before.length));
    at = after.length;
  }
  return pieces.trimmed();
}

/** `sum`: each learned token weighs 1. `mean`: the weights of one example sum to 1, so that long answers do not outweigh short ones. */
export type Reduction = "sum" | "mean";

/** How rendered tokens become a datum. */
export interface DatumOptions {
  /** Longer examples are cut to this many tokens. @defaultValue no limit */
  readonly maxLength?: number | undefined;
  /** @defaultValue "sum" */
  readonly reduction?: Reduction | undefined;
}

const datumNames: OptionNames<DatumOptions> = { maxLength: true, reduction: true };

/**
 * A datum for `cross_entropy`: inputs are all tokens but the last, targets all but the first. Undefined when no weighted
 * token is left, which happens when an answer lies wholly beyond `maxLength`.
 *
 * @example
 * ```ts
 * const datum = toDatum(renderExample(example, tokenizer), { maxLength: 512 });
 * ```
 */
export function toDatum(rendered: Rendered, options: DatumOptions = {}): SupervisedDatum | undefined {
  checkOptions("toDatum", options, datumNames);
  const { maxLength = rendered.tokens.length, reduction = "sum" } = options;
  checkReduction(reduction);
  const tokens = rendered.tokens.slice(0, maxLength);
  const weights = rendered.weights.slice(1, maxLength);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  if (tokens.length < 2 || total === 0) return undefined;
  return new Datum({
    modelInput: ModelInput.fromInts(tokens.slice(0, -1)),
    lossFnInputs: {
      target_tokens: tokens.slice(1),
      weights: reduction === "mean" ? weights.map((weight) => weight / total) : weights,
    },
  });
}

function checkReduction(reduction: Reduction): void {
  if (reduction !== "sum" && reduction !== "mean")
    throw new InvalidInputError("reduction", `must be sum or mean, got ${String(reduction)}`);
}

/** The same data with the weights of another reduction. Only for data of {@link toDatum}, whose learned tokens weigh alike. */
export function reduced(data: readonly SupervisedDatum[], reduction: Reduction): SupervisedDatum[] {
  return data.map(({ modelInput, lossFnInputs: { target_tokens, weights } }) => {
    const learned = Array.from(weights.values, Number).map((weight): number => (weight > 0 ? 1 : 0));
    const total = learned.reduce((sum, weight) => sum + weight, 0);
    const scaled = reduction === "mean" ? learned.map((weight) => weight / total) : learned;
    return new Datum({ modelInput, lossFnInputs: { target_tokens, weights: scaled } });
  });
}
