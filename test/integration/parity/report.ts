/** Tells `npm run parity` how much was compared; a plain test run asks for nothing. */
import { appendFileSync } from "node:fs";

export function report(line: { version: string; types?: number; values?: number }): void {
  const file = process.env["PARITY_REPORT"];
  if (file !== undefined) appendFileSync(file, `${JSON.stringify({ types: 0, values: 0, ...line })}\n`);
}
