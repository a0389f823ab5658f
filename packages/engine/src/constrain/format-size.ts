/** Measures a format before it is copied to another thread or parsed. */
import { GrammarTooLargeError } from "../errors.ts";
import type { Constraint } from "../types.ts";
import { formatCharacters } from "./budget.ts";

/** Characters of a value other than a string: digits, quotation marks, brackets and commas. */
const leastCharacters = 2;

/** Counts characters, and stops at the limit; a value of any size takes bounded time. */
function isLarger(value: unknown, limit: number): boolean {
  let characters = 0;
  const open = [value];
  while (open.length > 0) {
    const each = open.pop();
    characters += leastCharacters + (typeof each === "string" ? each.length : 0);
    if (typeof each === "object" && each !== null) {
      for (const key in each) {
        open.push((each as Readonly<Record<string, unknown>>)[key]);
        // Open values count as well, because they are held in memory.
        characters += Array.isArray(each) ? 0 : leastCharacters + key.length;
        if (characters + leastCharacters * open.length > limit) return true;
      }
    }
    if (characters > limit) return true;
  }
  return false;
}

/** @throws GrammarTooLargeError */
export function checkFormatSize(constraint: Constraint): void {
  if (!isLarger(constraint, formatCharacters)) return;
  throw new GrammarTooLargeError(
    "params.constraint.schema",
    `has more characters as JSON than the limit of ${formatCharacters}; use fewer or shorter descriptions and values`,
    { used: formatCharacters + 1, limit: formatCharacters },
  );
}
