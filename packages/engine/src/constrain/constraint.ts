/** Formats that requests ask for, compiled for one model's vocabulary. Formats that come again are found again. */
import { createHash } from "node:crypto";
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
   * Goes on with the vocabulary, or compiles. Returns the grammar when it is there; call again with the next slice when it is not.
   *
   * @throws InputError naming what cannot be honoured; GrammarTooLargeError
   */
  compile(constraint: Constraint, slice: Slice): Grammar | undefined;
  /** Bytes that are kept for requests to come. */
  readonly bytes: number;
}

/** Characters of a format that are read in the time of one step. */
const charactersPerStep = 64;

export function createCompiler(tokenizer: Tokenizer, vocabSize: number): GrammarCompiler {
  const builder = createVocabularyBuilder(tokenizer, vocabSize);
  let vocabulary: Vocabulary | undefined;
  const masks = new MaskCache(keptMaskBytes);
  const known = new Map<string, Grammar>();
  const keptBytes = (): number => {
    let bytes = 0;
    for (const grammar of known.values()) bytes += grammar.bytes;
    return bytes;
  };
  return {
    compile(constraint, slice) {
      vocabulary ??= builder.advance(slice);
      if (vocabulary === undefined || slice.left <= 0) return undefined;
      const text = textOf(constraint);
      slice.left -= text.length / charactersPerStep;
      const key = createHash("sha256").update(text).digest("base64");
      const grammar = known.get(key) ?? compile({ vocabulary, masks }, constraint, slice);
      known.delete(key);
      known.set(key, grammar); // the last that was used is the last that goes
      let bytes = keptBytes();
      for (const [oldest, { bytes: own }] of known) {
        if (bytes <= keptGrammarBytes) break;
        known.delete(oldest);
        bytes -= own;
      }
      return grammar;
    },
    get bytes() {
      return keptBytes() + masks.bytes;
    },
  };
}

function compile(tools: GrammarTools, constraint: Constraint, slice: Slice): Grammar {
  const budget = new GrammarBudget(slice);
  switch (constraint.type) {
    case "json_object":
      return createGrammar(tools, anyObject(tools.vocabulary, budget), budget);
    case "json_schema": {
      const grammar = createGrammar(tools, readSchema(tools.vocabulary, constraint.schema, budget), budget);
      if (grammar.cost === Number.POSITIVE_INFINITY) {
        throw new InputError("params.constraint.schema", "no value fits it", { code: "bad_schema" });
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
    throw new InputError("params.constraint", "is no JSON", { cause });
  }
}
