/**
 * Makes untrusted text (from models and users) safe to display: control and bidi characters become visible, and long text is truncated.
 * The result is used only in text nodes.
 */
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches the control characters to replace
const escapes = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: matches the control characters to replace
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;
/** Bidi controls and zero-width characters. */
const hidden = /[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|\u{e0000}|[\u{e0001}-\u{e007f}]/gu;

/** Characters that are shown initially. */
export const shownLength = 4000;

export function plainText(text: string): string {
  return text
    .replace(escapes, "")
    .replace(/\r\n?/g, "\n")
    .replace(controls, "\u00b7")
    .replace(hidden, (sign) => `\u2039U+${sign.codePointAt(0)!.toString(16).toUpperCase()}\u203a`);
}

/** The start of a text for display, and whether that is the whole text. Processes only the displayed part. */
export function shownText(text: string, length = shownLength): { readonly text: string; readonly isWhole: boolean } {
  return { text: plainText(text.slice(0, length)), isWhole: text.length <= length };
}

/** Text collapsed to one line. */
export const oneLine = (text: string, length = 120): string =>
  plainText(text.slice(0, length + 1))
    .replace(/\s+/g, " ")
    .slice(0, length) + (text.length > length ? "…" : "");
