/**
 * Ways to spoil a weight file: flipped bits, cut ends, overwritten stretches, and headers that lie. Each gives the new bytes and
 * says which of the old ones it changed in place, so that the drill knows which values may differ.
 *
 * Not among them, because no reader without checksums can notice: a header that consistently exchanges two tensors of one shape
 * and format, or that calls F16 data BF16.
 */

import { ggufFields } from "../../fixtures/models/gguf-fields.ts";
import type { Random } from "../../fixtures/models/random.ts";
import { type RawHeader, safetensorsBytes } from "../../fixtures/models/tiny-models.ts";

export interface Mutation {
  readonly what: string;
  readonly bytes: Buffer;
  /** Positions in the original whose bytes were changed in place; undefined when tensors must be untouched. */
  readonly changed?: ReadonlySet<number>;
}

export type Mutate = (original: Buffer, random: Random) => Mutation;

/** Flips bits anywhere below `end`. */
const flips =
  (where: string, endOf: (file: Buffer) => number): Mutate =>
  (original, random) => {
    const bytes = Buffer.from(original);
    const changed = new Set<number>();
    const count = 1 + random.integer(random.pick([1, 1, 8]));
    for (let i = 0; i < count; i++) {
      const at = random.integer(endOf(original));
      bytes[at] = (bytes[at] as number) ^ (1 << random.integer(8));
      changed.add(at);
    }
    return { what: `${count} bits flipped in the ${where}`, bytes, changed };
  };

const truncation: Mutate = (original, random) => {
  const length = random.pick([
    0,
    random.integer(24),
    random.integer(original.length),
    original.length - 1 - random.integer(64),
  ]);
  return { what: `cut to ${length} of ${original.length} bytes`, bytes: Buffer.from(original.subarray(0, length)) };
};

const growth: Mutate = (original, random) => {
  const extra = random.bytes(1 + random.integer(4096));
  return { what: `${extra.length} bytes more`, bytes: Buffer.concat([original, extra]) };
};

const overwriting: Mutate = (original, random) => {
  const bytes = Buffer.from(original);
  const start = random.integer(bytes.length);
  const length = Math.min(1 + random.integer(512), bytes.length - start);
  bytes.set(random.pick([new Uint8Array(length), random.bytes(length), new Uint8Array(length).fill(255)]), start);
  const changed = new Set(Array.from({ length }, (_, i) => start + i));
  return { what: `${length} bytes overwritten at ${start}`, bytes, changed };
};

const safetensorsHeaderEnd = (file: Buffer) => 8 + Number(file.readBigUInt64LE(0));
const hugeNumbers = [2 ** 31, 2 ** 32, 2 ** 53, 2 ** 60, 1e300, -1, -(2 ** 40), 0.5, "7", null];

/** One lie about one tensor, or about the header as a whole, in otherwise sound JSON. */
const safetensorsLie: Mutate = (original, random) => {
  const end = safetensorsHeaderEnd(original);
  const header = JSON.parse(original.toString("utf8", 8, end)) as RawHeader;
  const data = [original.subarray(end)];
  const names = Object.keys(header).filter((name) => name !== "__metadata__");
  const name = random.pick(names);
  const entry = header[name] as { dtype: unknown; shape: unknown[]; data_offsets: unknown[] };
  const huge = random.pick(hugeNumbers);
  const text = () => JSON.stringify(header);
  const rewritten = (what: string): Mutation => ({ what: `${what} (${name})`, bytes: safetensorsBytes(text(), data) });
  const lies: (() => Mutation)[] = [
    () => {
      entry.shape[random.integer(entry.shape.length)] = huge;
      return rewritten(`a dimension of ${huge}`);
    },
    () => {
      entry.shape = [...entry.shape].reverse();
      return rewritten("dimensions reversed");
    },
    () => {
      entry.shape = random.pick([[], [0], [...entry.shape, 1], [1, ...entry.shape], "32", {}, null]) as unknown[];
      return rewritten(`shape ${JSON.stringify(entry.shape)}`);
    },
    () => {
      entry.dtype = random.pick(["F64", "I32", "I8", "Q4_0", "F4", "constructor", "__proto__", 7, null]);
      return rewritten(`dtype ${JSON.stringify(entry.dtype)}`);
    },
    () => {
      entry.data_offsets[random.integer(2)] = huge;
      return rewritten(`an offset of ${huge}`);
    },
    () => {
      const shift = random.pick([1, 2, 4, 64]);
      entry.data_offsets = entry.data_offsets.map((offset) => (offset as number) + shift);
      return rewritten(`offsets moved by ${shift}`);
    },
    () => {
      entry.data_offsets = [...entry.data_offsets].reverse();
      return rewritten("offsets exchanged");
    },
    () => {
      const other = header[random.pick(names.filter((candidate) => candidate !== name))] as typeof entry;
      entry.data_offsets = other.data_offsets;
      return rewritten("the bytes of another tensor");
    },
    () => {
      delete header[name];
      return rewritten("a tensor left out");
    },
    () => {
      const doubled = `${text().slice(0, -1)},${JSON.stringify(name)}:${JSON.stringify(entry)}}`;
      return { what: `${name} twice`, bytes: safetensorsBytes(doubled, data) };
    },
    () => {
      const length = random.pick([0n, 1n, BigInt(end), BigInt(original.length), 100_000_001n, 2n ** 53n, 2n ** 63n]);
      return { what: `a header of ${length} bytes`, bytes: safetensorsBytes(text(), data, length) };
    },
    () => {
      const nested = "[".repeat(200_000);
      return { what: "deep brackets", bytes: safetensorsBytes(`{"a":${nested}`, data) };
    },
    () => {
      header["__metadata__"] = random.pick([{ format: 1 }, [], "x", null]);
      return rewritten("metadata of the wrong kind");
    },
    () => {
      const broken = Buffer.from(text());
      broken[random.integer(broken.length)] = 0xff;
      return { what: "a header that is not UTF-8", bytes: safetensorsBytes(broken, data) };
    },
    () => {
      header[random.pick(["../../etc/passwd", "__proto__x", "toString", ""])] = {
        dtype: "F32",
        shape: [0],
        data_offsets: [0, 0],
      };
      return rewritten("an additional tensor");
    },
  ];
  return random.pick(lies)();
};

/** One tensor of a GGUF given the place, the format or the (reversed) dimensions that it does not have: plausible, but untrue. */
const ggufTensorLie: Mutate = (original, random) => {
  const { fields } = ggufFields(original);
  const bytes = Buffer.from(original);
  const offsets = fields.filter(({ kind }) => kind === "tensor offset");
  const types = fields.filter(({ kind }) => kind === "tensor type");
  const which = random.integer(offsets.length);
  const { at } = offsets[which] as (typeof offsets)[number];
  const lies: (() => string)[] = [
    () => {
      const other = random.pick(offsets.filter((_, i) => i !== which));
      bytes.set(original.subarray(other.at, other.at + 8), at);
      return "the offset of another";
    },
    () => {
      const shift = random.pick([-32, 32, 64, 1]);
      bytes.writeBigUInt64LE(BigInt.asUintN(64, original.readBigUInt64LE(at) + BigInt(shift)), at);
      return `its offset moved by ${shift}`;
    },
    () => {
      const own = (types[which] as (typeof types)[number]).at;
      const floats = new Set([1, 30]); // F16 and BF16 have one size: see above
      const isOther = (type: number, now: number) => type !== now && !(floats.has(type) && floats.has(now));
      const now = original.readUInt32LE(own);
      bytes.writeUInt32LE(random.pick([0, 1, 2, 3, 6, 7, 8, 12, 13, 14, 30].filter((type) => isOther(type, now))), own);
      return "another format";
    },
    () => {
      const ranks = fields.filter(({ kind }) => kind === "rank");
      const first = (ranks[which] as (typeof ranks)[number]).at + 4;
      if (original.readUInt32LE(first - 4) !== 2) return "nothing"; // a vector has no other order
      bytes.set(original.subarray(first + 8, first + 16), first);
      bytes.set(original.subarray(first, first + 8), first + 8);
      return "its dimensions reversed";
    },
  ];
  return { what: `tensor ${which} with ${random.pick(lies)()}`, bytes };
};

/** One number of a GGUF header replaced. */
const ggufLie: Mutate = (original, random) => {
  const { fields } = ggufFields(original);
  const kind = random.pick([...new Set(fields.map((field) => field.kind))]); // rare kinds as often as common ones
  const field = random.pick(fields.filter((candidate) => candidate.kind === kind));
  const bytes = Buffer.from(original);
  const limit = 2n ** BigInt(field.bytes * 8);
  const was =
    field.bytes === 8 ? original.readBigUInt64LE(field.at) : BigInt(original.readUIntLE(field.at, field.bytes));
  const candidates = [
    0n,
    1n,
    was + 1n,
    was - 1n,
    was * 2n,
    was + 32n,
    was / 2n,
    limit - 1n,
    limit / 2n,
    2n ** 40n,
    2n ** 53n,
  ];
  const value = ((random.pick(candidates.filter((candidate) => candidate % limit !== was)) % limit) + limit) % limit;
  if (field.bytes === 8) bytes.writeBigUInt64LE(value, field.at);
  else bytes.writeUIntLE(Number(value), field.at, field.bytes);
  return { what: `${kind} ${was} said to be ${value}`, bytes };
};

const indexLie: Mutate = (original, random) => {
  const index = JSON.parse(original.toString("utf8")) as { weight_map: Record<string, unknown> };
  const name = random.pick(Object.keys(index.weight_map));
  const lies: (() => string)[] = [
    ...[
      "../model.safetensors",
      "/etc/passwd",
      "..\\x.safetensors",
      "C:\\x.safetensors",
      "sub/x.safetensors",
      "",
      7,
      null,
    ].map((file) => () => {
      index.weight_map[name] = file;
      return `${name} in ${JSON.stringify(file)}`;
    }),
    () => {
      index.weight_map[name] = "model-00003-of-00002.safetensors";
      return "a shard that is not there";
    },
    () => {
      const other = Object.values(index.weight_map).find((file) => file !== index.weight_map[name]);
      index.weight_map[name] = other;
      return "a tensor in the other shard";
    },
    () => {
      delete index.weight_map[name];
      return `${name} left out`;
    },
    () => {
      index.weight_map = {};
      return "an empty map";
    },
  ];
  const what = random.pick(lies)();
  return { what, bytes: Buffer.from(JSON.stringify(index)) };
};

const wholeFile = (file: Buffer) => file.length;
const common: readonly Mutate[] = [flips("file", wholeFile), truncation, growth, overwriting];

export const safetensorsMutations: readonly Mutate[] = [
  ...common,
  flips("header", safetensorsHeaderEnd),
  safetensorsLie,
  safetensorsLie,
];
export const ggufMutations: readonly Mutate[] = [
  ...common,
  flips("header", (file) => ggufFields(file).headerEnd),
  ggufLie,
  ggufTensorLie,
];
export const indexMutations: readonly Mutate[] = [flips("index", wholeFile), truncation, indexLie, indexLie];
