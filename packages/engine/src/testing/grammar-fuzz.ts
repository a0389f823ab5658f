/** Random response formats, compiled and written in the sampler's slices; an independent validator checks every result. */
import { runInNewContext } from "node:vm";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import {
  compileSteps,
  createSlice,
  formatCharacters,
  type Slice,
  sliceSteps,
  stepsPerByte,
} from "../constrain/budget.ts";
import { createCompiler } from "../constrain/constraint.ts";
import type { Grammar } from "../constrain/grammar.ts";
import { InputError } from "../errors.ts";
import { createRandom } from "../random.ts";
import { hostileSchema } from "./hostile-schemas.ts";

/** The result of one schema. */
export interface Outcome {
  readonly seed: number;
  /** `written`, or the error code of the rejection. */
  readonly end: string;
  /** The failure, if any. */
  readonly failure?: string;
  readonly compileSteps: number;
  readonly decodeSteps: number;
  /** The maximum steps between two checks of the slice. */
  readonly sliceSteps: number;
  readonly tokens: number;
  readonly grammarBytes: number;
  /** Memory in use after the reply minus that before the schema, measured by the caller. */
  readonly heldBytes: number;
  /** Milliseconds of the longest slice and of all slices. */
  readonly sliceMs: number;
  readonly totalMs: number;
}

/** Maximum tokens of a reply beyond those of the shortest one. */
const extraTokens = 200;
/** Formats whose shortest reply is longer are rejected, as for too little context. */
const mostTokens = 2000;
/** Time that the validator may take for a reply. */
const mostJudgingMs = 1000;
/** Maximum steps of an indivisible unit of work: reading and compiling a format, or the bytes of a token. */
export const mostAtOnce = Math.max(compileSteps, sliceSteps + 8 * stepsPerByte);

export function createFuzzer(tokenizer: Tokenizer) {
  const end = tokenizer.eosTokenIds[0]!;
  // The first request of an engine builds the vocabulary, slice by slice.
  const compiler = createCompiler(tokenizer, tokenizer.vocabSize);
  const endless: Slice = { left: Number.POSITIVE_INFINITY };
  compiler.compile({ type: "json_object" }, endless);

  const run = (seed: number, usedBytes: () => number = () => 0): Outcome => {
    const schema = hostileSchema(seed);
    const random = createRandom(seed, "reply");
    const seen = { compileSteps: 0, decodeSteps: 0, sliceSteps: 0, tokens: 0, grammarBytes: 0, sliceMs: 0, totalMs: 0 };
    const before = usedBytes();
    let heldBytes = 0;
    let isCompiling = true;
    /** Does the grammar work of one sampler step. */
    const inSlice = <T>(work: (slice: Slice) => T): T => {
      const slice = createSlice();
      const start = performance.now();
      try {
        return work(slice);
      } finally {
        const ms = performance.now() - start;
        const steps = sliceSteps - slice.left;
        seen.sliceMs = Math.max(seen.sliceMs, ms);
        seen.totalMs += ms;
        seen.sliceSteps = Math.max(seen.sliceSteps, steps);
        if (isCompiling) seen.compileSteps += steps;
        else seen.decodeSteps += steps;
      }
    };
    const outcome = (how: string, failure?: string): Outcome => ({
      seed,
      end: how,
      ...(failure === undefined ? {} : { failure }),
      ...seen,
      heldBytes,
    });
    let ids: readonly number[];
    try {
      let grammar: Grammar | undefined;
      while (grammar === undefined) {
        grammar = inSlice((slice) => compiler.compile({ type: "json_schema", schema }, slice));
      }
      isCompiling = false;
      seen.grammarBytes = grammar.bytes;
      if (grammar.cost > mostTokens) return outcome("no_room");
      ids = writeInSlices(grammar, inSlice, {
        end,
        room: grammar.cost + Math.floor(random() * extraTokens),
        random,
        count: () => seen.tokens++,
      });
      seen.grammarBytes = grammar.bytes;
    } catch (error) {
      heldBytes = usedBytes() - before;
      if (error instanceof InputError) return outcome(error.code);
      return outcome("failed", String(error));
    }
    heldBytes = usedBytes() - before; // without the validator's memory
    const problem = misfit(schema, tokenizer.decode(ids));
    return problem === notJudged ? outcome("written, not judged") : outcome("written", problem);
  };
  return {
    run,
    /** Bytes of cached grammars and masks. */
    get keptBytes() {
      return compiler.bytes;
    },
  };
}

interface Writing {
  readonly end: number;
  readonly room: number;
  readonly random: () => number;
  readonly count: () => void;
}

function writeInSlices(
  grammar: Grammar,
  inSlice: <T>(work: (slice: Slice) => T) => T,
  { end, room, random, count }: Writing,
): readonly number[] {
  const follower = grammar.follow([end], grammar.account());
  const ids: number[] = [];
  while (!follower.isOver && ids.length < room) {
    const token = inSlice((slice) => {
      if (!follower.prepare(slice)) return undefined;
      const allowed = follower.allowed(room - ids.length);
      const drawn = allowed[Math.floor(random() * allowed.length)]!;
      if (drawn !== end) follower.push(drawn);
      return drawn;
    });
    if (token === undefined) continue;
    if (token === end) break;
    count();
    ids.push(token);
  }
  if (!follower.isWhole) throw new Error("the reply is not whole");
  return ids;
}

/**
 * The validator does not terminate on circular references, rejects keywords that no reply reaches, and takes exponential time for some
 * patterns, which it matches by back-tracking.
 */
const notJudged = Symbol("not judged");

/** The validator's objection to a reply. */
function misfit(schema: unknown, text: string): string | typeof notJudged | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return `is not JSON: ${text.slice(0, 200)}`;
  }
  try {
    const ajv = new Ajv2020({ strict: false, logger: false, validateSchema: false });
    (addFormats as unknown as (to: Ajv2020) => void)(ajv);
    const validate = ajv.compile(schema as object);
    const judge = () => validate(value);
    return runInNewContext("judge()", { judge }, { timeout: mostJudgingMs })
      ? undefined
      : `${text.slice(0, 200)}: ${JSON.stringify(validate.errors?.[0])}`;
  } catch {
    return notJudged;
  }
}
