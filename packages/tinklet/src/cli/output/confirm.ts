/** The question before something is deleted for good. */
import { createInterface } from "node:readline/promises";
import type { Context } from "../context.ts";

/**
 * Lists what would go and asks. The end of the input is a no.
 *
 * @param things - what they are, for example `checkpoint(s)`
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
