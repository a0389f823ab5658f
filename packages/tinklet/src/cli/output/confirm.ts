/** The confirmation before a permanent deletion. */
import { createInterface } from "node:readline/promises";
import type { Context } from "../context.ts";

/**
 * Lists the items and asks. End of input counts as no.
 *
 * @param things - the kind of item, for example `checkpoint(s)`
 * @param total - a line below the list
 */
export async function confirmed(
  things: string,
  items: readonly string[],
  { signal, output }: Pick<Context, "signal" | "output">,
  total?: string,
): Promise<boolean> {
  const say = (text: string) => output.ask(text);
  say(`Will delete ${items.length} ${things}:`);
  for (const item of items) say(`  - ${item}`);
  if (total !== undefined) say(`\n${total}`);
  say("WARNING: This action is permanent and cannot be undone.");
  const ask = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await Promise.race([
      ask.question(`Are you sure you want to delete ${items.length} ${things}? [y/N]: `, { signal }),
      new Promise<string>((resolve) => ask.once("close", () => resolve(""))),
    ]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    ask.close();
  }
}
