/** Random regular expressions: most ordinary, some as expensive as possible, invalid, or with constructs that are rejected by name. */

/** Patterns that take exponential time or memory with back-tracking or with their repetitions written out. */
export const hostilePatterns: readonly string[] = [
  String.raw`^(a+)+$`,
  String.raw`(a*)*b`,
  String.raw`^(a|aa|a?)+$`,
  String.raw`^(x+x+)+y$`,
  String.raw`^(?:.*a){3}$`,
  String.raw`(?:.*a.*b){2}`,
  String.raw`^(?:a|b)*a(?:a|b){12}$`,
  String.raw`(?:a|b)*a(?:a|b){40}`,
  String.raw`^(?:a?){500}a{500}$`,
  String.raw`^((a{50}){50}){50}$`,
  String.raw`^(?:(?:a{0,60}){0,60})+$`,
  String.raw`^a{100000}$`,
  String.raw`^a{1,4096}$`,
  String.raw`^(?:ab){2048}$`,
  String.raw`(){4096}`,
  String.raw`^(?:(?:)*)*$`,
  String.raw`^.{0,1000}x.{0,1000}$`,
  String.raw`^\p{L}{1,200}$`,
  String.raw`^[^\p{L}\p{N}]*\P{Lu}[\p{Script=Greek}\p{Script=Han}]+$`,
  String.raw`^(?:\p{L}|\p{N}|\p{S}|\p{P}|\p{Z}|\p{M}|\p{C}|\p{Lu}|\p{Ll})$`,
  String.raw`^[\u{0}-\u{10ffff}]{1,3}$`,
  String.raw`^[\ud800-\udfff]*$`,
  String.raw`^\ud83d\ude00+$`,
  `^(?:${Array.from({ length: 400 }, (_, i) => `w${i * 7}`).join("|")})$`,
  `^[${Array.from({ length: 600 }, (_, i) => String.fromCodePoint(0x400 + 2 * i)).join("")}]+$`,
  Array.from({ length: 600 }, (_, i) => String.fromCodePoint(0x4e00 + 3 * i)).join("?"),
  `^${"z".repeat(4000)}$`,
  "z".repeat(5000),
  `${"(".repeat(100)}a${")".repeat(100)}`,
  `^${"(?:a|".repeat(60)}b${")*".repeat(60)}$`,
  String.raw`(?=a)b`,
  String.raw`^(?!a).*$`,
  String.raw`(?<=a)b`,
  String.raw`(?<!a)b`,
  String.raw`(a)\1`,
  String.raw`(?<n>a)\k<n>`,
  String.raw`\bword\b`,
  String.raw`(?i:a)`,
  String.raw`(`,
  String.raw`)`,
  String.raw`[b-a]`,
  String.raw`*`,
  String.raw`a{3,1}`,
  String.raw`\p{Nope}`,
  String.raw`\q`,
  "[",
  "\\",
];

const atoms = ["a", "b", "xy", "é", "日", "😀", "\\d", "\\w", "\\s", "\\S", ".", "[a-f]", "[^a-f]", "[é-ü\\n]"];
const marks = [
  '"',
  "\\\\",
  "/",
  "\\n",
  "\\t",
  "\\x07",
  "\\u2028",
  "\\u{1f600}",
  "\\.",
  "-",
  " ",
  "\\p{Lu}",
  "[^\\x00-\\x7f]",
];
const counts = ["*", "+", "?", "*?", "{2}", "{0,3}", "{1,}", "{3,20}", "{1,200}"];

/** A pattern by a random source. */
export function randomPattern(random: () => number): string {
  const below = (n: number): number => Math.floor(random() * n);
  const some = <T>(list: readonly T[]): T => list[below(list.length)]!;
  if (random() < 0.15) return some(hostilePatterns);
  const term = (depth: number): string => {
    const atom = depth < 3 && random() < 0.25 ? `(?:${alternatives(depth + 1)})` : some(random() < 0.7 ? atoms : marks);
    return random() < 0.4 ? `(?:${atom})${some(counts)}` : atom;
  };
  const sequence = (depth: number): string => Array.from({ length: below(4) }, () => term(depth)).join("");
  const alternatives = (depth: number): string =>
    Array.from({ length: random() < 0.8 ? 1 : 2 + below(3) }, () => sequence(depth)).join("|");
  const body = alternatives(0);
  const [start, end] = [random() < 0.7 ? "^" : "", random() < 0.7 ? "$" : ""];
  return body.includes("|") ? `${start}(?:${body})${end}` : `${start}${body}${end}`;
}
