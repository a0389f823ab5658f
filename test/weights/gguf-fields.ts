/**
 * Where the numbers of a GGUF header lie, for those who want to change them: a second, trusting walk through the format, so that
 * the drill's lies are aimed at fields and not only at bytes.
 */

export type FieldKind =
  | "version"
  | "tensor count"
  | "pair count"
  | "key length"
  | "value type"
  | "value"
  | "string length"
  | "array type"
  | "array count"
  | "name length"
  | "rank"
  | "dimension"
  | "tensor type"
  | "tensor offset";

export interface Field {
  readonly kind: FieldKind;
  readonly at: number;
  readonly bytes: number;
}

const sizes: Readonly<Record<number, number>> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };

/** The fields of a sound file, and where its header ends. */
export function ggufFields(file: Buffer): { fields: Field[]; headerEnd: number } {
  const fields: Field[] = [];
  let at = 4;
  const number = (kind: FieldKind, bytes: number): number => {
    fields.push({ kind, at, bytes });
    const value = bytes === 8 ? Number(file.readBigUInt64LE(at)) : file.readUIntLE(at, bytes);
    at += bytes;
    return value;
  };
  const skipText = (kind: FieldKind) => {
    const length = number(kind, 8);
    at += length;
  };
  number("version", 4);
  const tensors = number("tensor count", 8);
  const pairs = number("pair count", 8);
  for (let i = 0; i < pairs; i++) {
    skipText("key length");
    const type = number("value type", 4);
    if (type === 8) skipText("string length");
    else if (type === 9) {
      const item = number("array type", 4);
      const count = number("array count", 8);
      for (let j = 0; j < count; j++) {
        if (item === 8) skipText("string length");
        else at += sizes[item] as number;
      }
    } else number("value", sizes[type] as number);
  }
  for (let i = 0; i < tensors; i++) {
    skipText("name length");
    const rank = number("rank", 4);
    for (let j = 0; j < rank; j++) number("dimension", 8);
    number("tensor type", 4);
    number("tensor offset", 8);
  }
  return { fields, headerEnd: at };
}
