/**
 * Loads what explains failures (`hints.ts`, `unsupported.ts`) at the first one: programs without failures do not need it. After that it is found
 * synchronously.
 */
import type { Operation } from "@tinklet/wire/client";
import type { APIStatusError, Hint, UnsupportedFeatureError } from "@tinklet/wire/errors";
import type { FailureFacts } from "./hints.ts";

interface Explained {
  readonly hint: (facts: FailureFacts) => Hint | undefined;
  readonly lacking: (error: APIStatusError, operation: Operation) => UnsupportedFeatureError | undefined;
}
let loaded: Explained | undefined;

/** Resolves when failures can be explained; `undefined` if they already can. Never rejects: an error without its hint is still the error. */
export function loadHints(): Promise<void> | undefined {
  if (loaded !== undefined) return undefined;
  return import("./explain-failure.ts").then(
    ({ hintFor: hint, unsupported: lacking }) => {
      loaded = { hint, lacking };
    },
    () => {},
  );
}

/** The hint for a failure; `undefined` before {@link loadHints} has resolved. */
export const hintFor = (facts: FailureFacts): Hint | undefined => loaded?.hint(facts);

/** The feature that the server lacks, if that is the reason for the error; `undefined` before {@link loadHints} has resolved. */
export const unsupported = (error: APIStatusError, operation: Operation): UnsupportedFeatureError | undefined =>
  loaded?.lacking(error, operation);
