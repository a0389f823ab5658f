/**
 * Letters for pictures that are drawn pixel by pixel: five columns, seven rows above the baseline and two below it, small letters
 * included. A row is one digit in base 32, its highest bit the leftmost pixel; rows that are left out at the end are empty.
 */

const glyphs: Readonly<Record<string, string>> = {
  A: "ehhvhhh",
  B: "uhhuhhu",
  C: "ehggghe",
  D: "uhhhhhu",
  E: "vgguggv",
  F: "vgguggg",
  G: "ehgnhhf",
  H: "hhhvhhh",
  I: "e44444e",
  J: "72222ic",
  K: "hikokih",
  L: "ggggggv",
  M: "hrllhhh",
  N: "hhpljhh",
  O: "ehhhhhe",
  P: "uhhuggg",
  Q: "ehhhlid",
  R: "uhhukih",
  S: "fgge11u",
  T: "v444444",
  U: "hhhhhhe",
  V: "hhhhha4",
  W: "hhhllla",
  X: "hha4ahh",
  Y: "hhha444",
  Z: "v1248gv",
  "0": "ehjlphe",
  "1": "4c4444e",
  "2": "eh1248v",
  "3": "v2421he",
  "4": "26aiv22",
  "5": "vgu11he",
  "6": "68guhhe",
  "7": "v124888",
  "8": "ehhehhe",
  "9": "ehhf12c",
  a: "00e1fhf",
  b: "ggmphhu",
  c: "00egghe",
  d: "11djhhf",
  e: "00ehvge",
  f: "698s888",
  g: "00fhhhf1e",
  h: "ggmphhh",
  i: "40c444e",
  j: "2062222ic",
  k: "ggikoki",
  l: "c44444e",
  m: "00qllhh",
  n: "00mphhh",
  o: "00ehhhe",
  p: "00uhhhugg",
  q: "00fhhhf11",
  r: "00mpggg",
  s: "00fge1u",
  t: "88s8896",
  u: "00hhhjd",
  v: "00hhha4",
  w: "00hhlla",
  x: "00ha4ah",
  y: "00hhhhf1e",
  z: "00v248v",
  ".": "00000cc",
  ",": "00000cc48",
  "-": "000v",
  _: "0000000v",
  "/": "11248gg",
  "\\": "gg84211",
  ":": "0cc0cc",
  ";": "0cc0cc48",
  "+": "044v44",
  "%": "op248j3",
  "(": "2488842",
  ")": "8422248",
  "[": "e88888e",
  "]": "e22222e",
  "{": "2448442",
  "}": "8442448",
  "<": "248g842",
  ">": "8421248",
  "=": "00v0v",
  "!": "4444404",
  "?": "eh12404",
  "*": "04lel4",
  "#": "aavavaa",
  "@": "ehnlnge",
  "&": "cik8lid",
  $: "4fke5u4",
  "~": "008l2",
  "^": "4ah",
  "`": "842",
  "|": "444444444",
  "'": "448",
  '"': "aaa",
  "·": "000cc",
  " ": "",
};
/** A frame for what has no letter here. */
const unknown = "vhhhhhv";

/** Rows from the top of a capital to the baseline. */
export const capRows = 7;
/** Columns from one letter to the next. */
export const letterColumns = 6;

/** Columns that a text takes, without the gap behind its last letter. */
export const textColumns = (text: string): number => Math.max(0, [...text].length * letterColumns - 1);

/** The pixels of a text, from its upper left corner. */
export function* textPixels(text: string): Generator<readonly [column: number, row: number]> {
  for (const [at, letter] of [...text].entries()) {
    const rows = Object.hasOwn(glyphs, letter) ? (glyphs[letter] as string) : unknown;
    for (const [row, digit] of [...rows].entries()) {
      const bits = Number.parseInt(digit, 32);
      for (let column = 0; column < 5; column++) if (bits & (16 >> column)) yield [at * letterColumns + column, row];
    }
  }
}
