/** Formats that requests ask for, compiled for one model's vocabulary. Formats that come again are found again. */
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { InputError } from "../errors.ts";
import type { Constraint } from "../types.ts";
import { createGrammar, type Grammar } from "./grammar.ts";
import { anyObject, readSchema } from "./read-schema.ts";
import { createVocabulary, type Vocabulary } from "./vocabulary.ts";

/** @throws InputError naming what cannot be honoured. */
export type Compile = (constraint: Constraint) => Grammar;

/** Grammars that are kept. */
const mostGrammars = 32;

export function createCompiler(tokenizer: Tokenizer, vocabSize: number): Compile {
  let vocabulary: Vocabulary | undefined;
  const known = new Map<string, Grammar>();
  return (constraint) => {
    const key = keyOf(constraint);
    const again = known.get(key);
    known.delete(key);
    vocabulary ??= createVocabulary(tokenizer, vocabSize);
    const grammar = again ?? compile(vocabulary, constraint);
    known.set(key, grammar); // the last that was used is the last that goes
    if (known.size > mostGrammars) known.delete(known.keys().next().value!);
    return grammar;
  };
}

function compile(vocabulary: Vocabulary, constraint: Constraint): Grammar {
  switch (constraint.type) {
    case "json_object":
      return createGrammar(vocabulary, anyObject(vocabulary));
    case "json_schema": {
      const grammar = createGrammar(vocabulary, readSchema(vocabulary, constraint.schema));
      if (grammar.cost === Number.POSITIVE_INFINITY) {
        throw new InputError("params.constraint.schema", "no value fits it", { code: "bad_schema" });
      }
      return grammar;
    }
    default:
      throw new InputError("params.constraint.type", "must be json_schema or json_object");
  }
}

function keyOf(constraint: Constraint): string {
  try {
    return JSON.stringify(constraint, (_key, value: unknown) => (typeof value === "bigint" ? `${value}n` : value));
  } catch (cause) {
    throw new InputError("params.constraint", "is no JSON", { cause });
  }
}
