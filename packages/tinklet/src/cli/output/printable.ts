/** Text of a server, a model or a file for a terminal: its control characters must not drive the terminal that shows it. */

const spelt = (text: string): string =>
  Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");

/**
 * Spells out control and formatting characters (`\u001b`) but line breaks, tabs, and the joiners of emoji and of scripts that need them.
 * With them go escape sequences, and the marks that make a terminal show text in another order than it has.
 */
export const printable = (text: string): string =>
  text.replace(/(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, spelt);

/** A text in one line. */
export const oneLine = (text: string): string => text.replace(/[\n\t]/g, spelt);

/** The same as {@link printable} for JSON, which means what it meant before. */
export const printableJson = (json: string): string => json.replace(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, spelt);
