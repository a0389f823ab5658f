/** Reads pairs of answers for preference learning: what a line of such a file may be. The loop is `loops/preference.ts`. */
import { DataError, InvalidLines } from "./data-error.ts";
import { type Example, type Place, toExample } from "./examples.ts";
import { type ReadDataOptions, readRows } from "./read-data.ts";

/** Two answers to the same prompt, as examples. */
export interface Preference {
  readonly chosen: Example;
  readonly rejected: Example;
}

const shapes = `Each line is {"prompt": …, "chosen": …, "rejected": …}: three strings, or three lists of messages, then also with "tools".`;

/**
 * Reads pairs of answers. `tinklet traces export --as dpo` writes such files.
 *
 * @param source - a file or a dataset of the Hub, as `readData` has it; each row has `prompt`, `chosen` and `rejected`: strings, or lists of
 *   messages (then also `tools`)
 * @throws {@link DataError} with all invalid lines, grouped by problem
 *
 * @example
 * ```ts
 * const pairs = await readPreferences("pairs.jsonl");
 * ```
 */
export async function readPreferences(source: string, options: ReadDataOptions = {}): Promise<Preference[]> {
  const pairs: Preference[] = [];
  const invalid = new InvalidLines();
  for await (const { value, file, line } of readRows(source, options, (error) => invalid.add(error))) {
    try {
      pairs.push(toPreference(value, { file, line }));
    } catch (error) {
      invalid.add(error);
    }
  }
  invalid.throwIfAny();
  if (pairs.length === 0) throw new DataError({ file: source }, "has no pairs", { hint: shapes });
  return pairs;
}

function toPreference(value: unknown, place: Place): Preference {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new DataError(place, "must be an object", { hint: shapes });
  const row = value as Record<string, unknown>;
  if (Array.isArray(row["prompt"]) && typeof row["chosen"] === "string" && typeof row["rejected"] === "string") {
    // Datasets often give the conversation as messages and the two answers as texts.
    const [chosen, rejected] = [row["chosen"], row["rejected"]].map((content) => [{ role: "assistant", content }]);
    return toPreference({ ...row, chosen, rejected }, place);
  }
  const answer = (field: "chosen" | "rejected"): Example => {
    if (Array.isArray(row["prompt"]) !== Array.isArray(row[field]))
      throw new DataError(place, `${field} must be of the same kind as prompt`, { hint: shapes });
    try {
      return toExample({ prompt: row["prompt"], completion: row[field], tools: row["tools"] }, place);
    } catch (cause) {
      if (!(cause instanceof DataError)) throw cause;
      throw new DataError(place, cause.problem.replace(/^completion/, field), { hint: shapes, cause });
    }
  };
  return { chosen: answer("chosen"), rejected: answer("rejected") };
}
