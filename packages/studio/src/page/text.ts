/**
 * Texts that models and other people wrote, made fit to be shown: signs that steer a terminal or turn the direction of writing become
 * visible, and what is very long is cut where it is shown. The result is only ever put into text nodes.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be shown as they are
const escapes = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be shown as they are
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
/** Marks that change the direction of writing, and signs without a width. */
const hidden = /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\u{e0000}|[\u{e0001}-\u{e007f}]/gu;

/** Characters that are shown before somebody asks for more. */
export const shownLength = 4000;

export function plainText(text: string): string {
  return text
    .replace(escapes, "")
    .replace(/\r\n?/g, "\n")
    .replace(controls, "\u00b7")
    .replace(hidden, (sign) => `\u2039U+${sign.codePointAt(0)!.toString(16).toUpperCase()}\u203a`);
}

/** The beginning of a text, fit to be shown, and whether that is all of it. Reads no more of it than it shows. */
export function shownText(text: string, length = shownLength): { readonly text: string; readonly isWhole: boolean } {
  return { text: plainText(text.slice(0, length)), isWhole: text.length <= length };
}

/** One line of a text. */
export const oneLine = (text: string, length = 120): string =>
  plainText(text.slice(0, length + 1))
    .replace(/\s+/g, " ")
    .slice(0, length) + (text.length > length ? "…" : "");
