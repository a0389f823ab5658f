/**
 * Loads `hints.ts` at the first failure: programs without failures do not need its texts. After that, hints are found synchronously.
 */
import type { Hint } from "@tinklet/wire/errors";
import type { FailureFacts } from "./hints.ts";

let find: (facts: FailureFacts) => Hint | undefined = () => undefined;
let isLoaded = false;

/** Resolves when hints can be found; `undefined` if they already can. Never rejects: an error without its hint is still the error. */
export function loadHints(): Promise<void> | undefined {
  if (isLoaded) return undefined;
  return import("./hints.ts").then(
    ({ hintFor }) => {
      find = hintFor;
      isLoaded = true;
    },
    () => {},
  );
}

/** The hint for a failure; `undefined` before {@link loadHints} has resolved. */
export const hintFor = (facts: FailureFacts): Hint | undefined => find(facts);
