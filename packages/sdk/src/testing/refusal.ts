/** Returns the typed error that a call throws, so that tests can check its field and hint. */
import { InvalidInputError } from "@tinklet/wire/errors";

export function refusal(body: () => unknown): InvalidInputError {
  try {
    body();
  } catch (error) {
    if (error instanceof InvalidInputError) return error;
    throw error;
  }
  throw new Error("the call did not throw");
}
