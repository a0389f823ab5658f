/** Escapes control characters in text of servers, models and files, so that it cannot control the terminal. */

const spelt = (text: string): string =>
  Array.from({ length: text.length }, (_, at) => `\\u${text.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");

/**
 * Escapes control and formatting characters (`\u001b`), except line breaks, tabs and joiners, which emoji and some scripts need. This
 * disables escape sequences and bidirectional overrides.
 */
export const printable = (text: string): string =>
  text.replace(/(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, spelt);

/** The text with line breaks and tabs escaped. */
export const oneLine = (text: string): string => text.replace(/[\n\t]/g, spelt);

/** Like {@link printable}, for JSON text; the parsed value stays the same. */
export const printableJson = (json: string): string => json.replace(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, spelt);
