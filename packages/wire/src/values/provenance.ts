/**
 * Provenance of the tokens of a datum: spans of a sampled sequence, or of the prompt that it was sampled for. Consecutive spans cover a
 * field of the datum completely, so the position of a span follows from the order. Newer than 0.25.
 */

import { describe, isPlainObject } from "../describe.ts";
import { InvalidInputError } from "../errors.ts";

interface Run {
  /** `SampledSequence.sequenceId` of the sequence. */
  readonly sequenceId: string;
  /** Start of the span in the sequence or prompt. @defaultValue 0 */
  readonly offset?: number;
  /** Number of tokens. */
  readonly length: number;
}
/** Tokens of the prompt that a sequence was sampled for. */
export interface PromptProvenanceSpan extends Run {
  readonly type: "prompt";
}
/** Tokens that were sampled as part of a sequence. */
export interface SampledProvenanceSpan extends Run {
  readonly type: "sampled";
}
/** Consecutive spans that cover one field of a datum. */
export type ProvenanceSpans = readonly (PromptProvenanceSpan | SampledProvenanceSpan)[];

/** @throws {@link InvalidInputError} naming the span and the problem. */
export function checkSpans(field: string, spans: unknown): void {
  if (!Array.isArray(spans)) throw new InvalidInputError(field, `must be an array of spans, not ${describe(spans)}`);
  for (const [i, span] of (spans as unknown[]).entries()) {
    const { type, sequenceId, offset = 0, length } = isPlainObject(span) ? span : {};
    const fail = (key: string, problem: string): never => {
      throw new InvalidInputError(`${field}[${i}].${key}`, problem);
    };
    if (type !== "prompt" && type !== "sampled") fail("type", `must be "prompt" or "sampled", not ${describe(type)}`);
    if (typeof sequenceId !== "string" || sequenceId === "") fail("sequenceId", "must be the id of a sequence");
    for (const [key, value] of Object.entries({ offset, length })) {
      if (!Number.isSafeInteger(value) || (value as number) < 0) {
        fail(key, `must be an integer of at least 0, not ${describe(value)}`);
      }
    }
  }
}

/** @throws {@link InvalidInputError} when the spans do not cover exactly `length` positions. */
export function checkTiling(field: string, spans: ProvenanceSpans, length: number): void {
  const covered = spans.reduce((sum, span) => sum + span.length, 0);
  if (covered === length) return;
  throw new InvalidInputError(field, `must cover all ${length} positions, but cover ${covered}`);
}
