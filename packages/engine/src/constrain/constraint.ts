/** Compiles response formats for one model's vocabulary and caches the results. */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { InputError } from "../errors.ts";
import type { Constraint } from "../types.ts";
import { GrammarBudget, keptGrammarBytes, keptMaskBytes, type Slice } from "./budget.ts";
import { createGrammar, type Grammar, type GrammarTools } from "./grammar.ts";
import { MaskCache } from "./masks.ts";
import { anyObject, readSchema } from "./read-schema.ts";
import { createVocabularyBuilder, type Vocabulary } from "./vocabulary.ts";

export interface GrammarCompiler {
  /**
   * Continues building the vocabulary, then compiles. Returns the grammar when it is complete; otherwise call again with the next slice.
   *
   * @throws InputError naming the unsupported part; GrammarTooLargeError
   */
  compile(constraint: Constraint, slice: Slice): Grammar | undefined;
  /** Bytes of cached grammars and masks. */
  readonly bytes: number;
}

/** Characters of a format that are parsed in the time of one step. */
const charactersPerStep = 64;

export function createCompiler(tokenizer: Tokenizer, vocabSize: number): GrammarCompiler {
  const builder = createVocabularyBuilder(tokenizer, vocabSize);
  let vocabulary: Vocabulary | undefined;
  const masks = new MaskCache(keptMaskBytes);
  /** Keyed by the format's JSON. */
  const known = new Map<string, Grammar>();
  const bytesOf = (text: string, grammar: Grammar): number => grammar.bytes + 2 * text.length;
  const keptBytes = (): number => {
    let bytes = 0;
    for (const [text, grammar] of known) bytes += bytesOf(text, grammar);
    return bytes;
  };
  return {
    compile(constraint, slice) {
      vocabulary ??= builder.advance(slice);
      if (vocabulary === undefined || slice.left <= 0) return undefined;
      const text = textOf(constraint);
      const reading = text.length / charactersPerStep;
      let grammar = known.get(text);
      if (grammar === undefined) {
        const budget = new GrammarBudget(slice);
        budget.spend(reading);
        grammar = compile({ vocabulary, masks }, constraint, budget);
      } else slice.left -= reading;
      known.delete(text);
      known.set(text, grammar); // moves it to the end: most recently used
      let bytes = keptBytes();
      for (const [oldest, least] of known) {
        if (bytes <= keptGrammarBytes) break;
        known.delete(oldest);
        bytes -= bytesOf(oldest, least);
      }
      return grammar;
    },
    get bytes() {
      return keptBytes() + masks.bytes;
    },
  };
}

function compile(tools: GrammarTools, constraint: Constraint, budget: GrammarBudget): Grammar {
  switch (constraint.type) {
    case "json_object":
      return createGrammar(tools, anyObject(tools.vocabulary, budget), budget);
    case "json_schema": {
      const grammar = createGrammar(tools, readSchema(tools.vocabulary, constraint.schema, budget), budget);
      if (grammar.cost === Number.POSITIVE_INFINITY) {
        throw new InputError("params.constraint.schema", "must allow at least one value", { code: "bad_schema" });
      }
      return grammar;
    }
    default:
      throw new InputError("params.constraint.type", "must be json_schema or json_object");
  }
}

function textOf(constraint: Constraint): string {
  try {
    return JSON.stringify(constraint, (_key, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
  } catch (cause) {
    throw new InputError("params.constraint", "must be JSON", { cause });
  }
}
