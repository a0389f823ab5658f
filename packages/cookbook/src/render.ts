/**
 * From an example to tokens and the weight of each in the loss, by the model's own chat template. The text is cut where a
 * prompt at sampling time would end and each piece is encoded by itself, so that training sees the same token boundaries
 * as sampling.
 */
import { type ChatMessage, Datum, InvalidInputError, ModelInput, type Tokenizer } from "tinklet";
import { checkOptions, type OptionNames } from "tinklet/wire";
import { DataError } from "./data-error.ts";
import type { Example, Place } from "./examples.ts";

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
  if (!trainOnChoices.includes(trainOn)) {
    throw new InvalidInputError("trainOn", `must be one of ${trainOnChoices.join(", ")}, and is ${String(trainOn)}`);
  }
  const pieces = new Pieces(tokenizer);
  if (example.kind === "chat") addChat(pieces, example.messages, trainOn, example);
  else {
    const [prompt, answer] = example.kind === "text" ? ["", example.text] : [example.prompt, example.completion];
    pieces.add(tokenizer.encode(prompt), trainOn === "everything"); // with the BOS, where the model has one
    pieces.add([...tokenizer.encode(answer, { addSpecialTokens: false }), ...tokenizer.eosTokenIds.slice(0, 1)], true);
  }
  return pieces.trimmed();
}

/** The prompt that asks for the answer to a conversation, as it was when rendering. */
export function renderPrompt(messages: readonly ChatMessage[], tokenizer: Tokenizer): number[] {
  return tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true });
}

/** Tokens and their weights, gathered piece by piece. */
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

  /** An answer: what follows the token that ends the turn (often a line break) is the template's, not the model's. */
  addAnswer(text: string): void {
    const tokens = this.tokenizer.encode(text, { addSpecialTokens: false });
    const ends = tokens.findLastIndex((token) => this.tokenizer.eosTokenIds.includes(token)) + 1 || tokens.length;
    this.add(tokens.slice(0, ends), true);
    this.add(tokens.slice(ends), false);
  }

  /** Without the tail that carries no weight: nothing would be learned from it. */
  trimmed(): Rendered {
    const length = this.#weights.lastIndexOf(1) + 1;
    return { tokens: this.#tokens.slice(0, length), weights: this.#weights.slice(0, length) };
  }
}

function addChat(pieces: Pieces, all: readonly ChatMessage[], trainOn: TrainOn, place: Place): void {
  const render = (messages: readonly ChatMessage[], addGenerationPrompt: boolean) =>
    pieces.tokenizer.applyChatTemplate(messages, { addGenerationPrompt, tokenize: false });
  if (trainOn === "everything") {
    pieces.addText(render(all, false), true);
    return;
  }
  const last = all.findLastIndex(({ role }) => role === "assistant");
  if (last < 0) throw new DataError(place, "has no message of the assistant, so there is nothing to learn");
  const messages = all.slice(0, last + 1);
  const whole = render(messages, false);
  let at = 0; // how much of `whole` is in the pieces
  messages.forEach(({ role }, index) => {
    if (role !== "assistant" || (trainOn === "last_answer" && index < last)) return;
    const before = render(messages.slice(0, index), true);
    const after = index === last ? whole : render(messages.slice(0, index + 1), false);
    if (!whole.startsWith(before) || !whole.startsWith(after) || after.length < before.length) {
      throw new DataError(place, `the chat template changes message ${index} when others follow it`, {
        hint: "Train on the last answer alone (last_answer): then the model learns on what it will see.",
      });
    }
    pieces.addText(before.slice(at), false);
    pieces.addAnswer(after.slice(before.length));
    at = after.length;
  });
}

/** How rendered tokens become a datum. */
export interface DatumOptions {
  /** Tokens that fit into the context; what is longer loses its end. @defaultValue no limit */
  readonly maxLength?: number | undefined;
  /** `mean`: the weights of one example sum to 1, so that long answers do not outweigh short ones. @defaultValue "sum" */
  readonly reduction?: "sum" | "mean";
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
