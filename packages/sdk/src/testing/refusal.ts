/** For tests of what is refused: the typed error that a call raises, so that its field and its hint can be looked at. */
import { InvalidInputError } from "@tinklet/wire/errors";

export function refusal(body: () => unknown): InvalidInputError {
  try {
    body();
  } catch (error) {
    if (error instanceof InvalidInputError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
