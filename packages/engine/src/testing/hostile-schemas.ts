/** Random JSON schemas by seed: most ordinary, many with a part that is as expensive as possible. */
import { formatNames } from "../constrain/pattern/formats.ts";
import { createRandom } from "../random.ts";
import { randomPattern } from "./hostile-patterns.ts";

type Schema = Record<string, unknown>;

/** Bounds of numbers: near powers of ten, near the resolution of a double, and out of range. */
const numbers = [
  0,
  -0,
  1,
  -1,
  9,
  10,
  0.1,
  -0.25,
  1e-7,
  1e-15,
  5e-324,
  99.999,
  100_000,
  999_999.5,
  1e6,
  1e7,
  -1e7,
  123_456_789_012,
  1e14,
  1e15,
  -1e15,
  2 ** 53,
  -(2 ** 53),
  1e21,
  1e300,
  -1e300,
  Number.MAX_VALUE,
  0.1 + 0.2,
  1 / 3,
];
const words = ["name", "age", "größe", "日本", "a b", 'quo"te', "ids", "kind", "é", "", "x\ny", "\u2028", "👩‍👩‍👧"];
const counts = [0, 1, 2, 3, 7, 20, 255, 1000, 100_000, 1e9];

class Maker {
  readonly #random: () => number;
  /** Remaining schema nodes. */
  #left: number;

  constructor(seed: number) {
    this.#random = createRandom(seed, "hostile schema");
    this.#left = this.#some([10, 30, 30, 100, 300]);
  }

  #below(n: number): number {
    return Math.floor(this.#random() * n);
  }

  #some<T>(list: readonly T[]): T {
    return list[this.#below(list.length)]!;
  }

  #chance(share: number): boolean {
    return this.#random() < share;
  }

  #number(): number {
    const near = this.#some(numbers);
    if (this.#chance(0.5)) return near;
    const other = this.#chance(0.5) ? Math.trunc(near * (1 + this.#random())) : near * this.#random() - this.#random();
    return Number.isFinite(other) ? other : near;
  }

  #name(): string {
    const text = this.#some(words);
    switch (this.#below(6)) {
      case 0:
        return text.repeat(1 + this.#below(40));
      case 1:
        return `${"a".repeat(this.#below(60))}${this.#below(1000)}`;
      case 2:
        return `${this.#below(1e6)}`;
      default:
        return text + this.#below(5);
    }
  }

  #bounds(low: string, high: string, value: () => number): Schema {
    const bounds: Schema = {};
    if (this.#chance(0.5)) bounds[low] = value();
    if (this.#chance(0.5)) bounds[high] = value();
    const [least, most] = [bounds[low], bounds[high]] as [number | undefined, number | undefined];
    // Usually in the schema's order.
    if (least !== undefined && most !== undefined && least > most && this.#chance(0.9)) {
      Object.assign(bounds, { [low]: most, [high]: least });
    }
    return bounds;
  }

  #numeric(): Schema {
    const value = () => this.#number();
    return {
      type: this.#some(["integer", "number"]),
      ...this.#bounds("minimum", "maximum", value),
      ...(this.#chance(0.2) ? this.#bounds("exclusiveMinimum", "exclusiveMaximum", value) : {}),
      ...(this.#chance(0.02) ? { multipleOf: this.#number() } : {}),
    };
  }

  /** A scalar or another small schema. */
  #fixed(): unknown {
    const value = this.#name();
    return this.#some<unknown>([value, this.#number(), this.#below(1000), null, true, [value], { [value || "x"]: 1 }]);
  }

  #list(size: number, make: (index: number) => unknown): unknown[] {
    return Array.from({ length: size }, (_, i) => make(i));
  }

  #object(depth: number): Schema {
    const size = this.#some([0, 1, 2, 3, 5, 8, 30, this.#chance(0.2) ? 500 : 4]);
    const isWide = size > 30;
    const prefix = this.#some(["", "", "p", "a".repeat(this.#below(100)), " ".repeat(20)]);
    const properties: Schema = {};
    for (let i = 0; i < size; i++) {
      const name = isWide || prefix !== "" ? `${prefix}${this.#below(1e5)}` : this.#name();
      properties[name] = isWide ? this.#leaf() : this.value(depth + 1);
    }
    const share = this.#some([0, 0.1, 0.5, 1]);
    const required = Object.keys(properties).filter(() => this.#chance(share));
    return {
      type: "object",
      properties,
      ...(required.length > 0 ? { required } : {}),
      ...(this.#chance(0.7) ? { additionalProperties: this.#chance(0.8) ? false : this.value(depth + 1) } : {}),
      ...(this.#chance(0.03) ? { minProperties: this.#below(3) } : {}),
      ...(size === 0 && this.#chance(0.5) ? { maxProperties: this.#some(counts) } : {}),
    };
  }

  #array(depth: number): Schema {
    return {
      type: "array",
      ...(this.#chance(0.8) ? { items: this.value(depth + 1) } : {}),
      ...(this.#chance(0.2) ? { prefixItems: this.#list(this.#below(4), () => this.value(depth + 1)) } : {}),
      ...this.#bounds("minItems", "maxItems", () => (this.#chance(0.8) ? this.#below(6) : this.#some(counts))),
    };
  }

  /** Many options with a common prefix, in one of the forms that keep them ambiguous for long. */
  #options(depth: number): Schema {
    const size = this.#some([2, 3, 10, 64, 100, 256]);
    const keyword = this.#some(["anyOf", "anyOf", "oneOf"]);
    switch (this.#below(6)) {
      case 0:
        return { [keyword]: this.#list(size, (i) => ({ type: "string", minLength: i, maxLength: 2 * i + 3 })) };
      case 1:
        return { [keyword]: this.#list(size, (i) => ({ type: "integer", minimum: i, maximum: 10 ** 6 + i })) };
      case 2:
        return {
          [keyword]: this.#list(size, (i) => ({ enum: this.#list(10, (k) => `${"z".repeat(20)}${i * 10 + k}`) })),
        };
      case 3:
        return {
          [keyword]: this.#list(size, (i) => ({
            type: "object",
            properties: { kind: { const: i }, [`p${i}`]: this.#leaf() },
            required: ["kind"],
          })),
        };
      case 4:
        return { [keyword]: this.#list(size, (i) => ({ type: "array", items: { type: "null" }, minItems: i })) };
      default:
        return { [keyword]: this.#list(Math.min(size, 10), () => this.value(depth + 1)) };
    }
  }

  #string(): Schema {
    const bounds = this.#bounds("minLength", "maxLength", () => this.#some(counts));
    switch (this.#below(4)) {
      case 0:
        return { type: "string", ...bounds };
      case 1:
        return { type: "string", format: this.#some(formatNames), ...(this.#chance(0.2) ? bounds : {}) };
      default:
        return { type: "string", pattern: randomPattern(this.#random), ...(this.#chance(0.3) ? bounds : {}) };
    }
  }

  #leaf(): unknown {
    switch (this.#below(8)) {
      case 0:
        return this.#string();
      case 1:
        return { enum: this.#list(1 + this.#below(this.#some([3, 10, 300])), () => this.#fixed()) };
      case 2:
        return { const: this.#fixed() };
      case 3:
        return this.#some([true, {}, { type: "null" }, { type: "boolean" }, { type: ["string", "null", "integer"] }]);
      case 4:
        return { $ref: `#/$defs/d${this.#below(4)}` };
      default:
        return this.#numeric();
    }
  }

  value(depth: number): unknown {
    this.#left--;
    if (this.#left <= 0 || depth > 40) return this.#leaf();
    switch (this.#below(depth < 3 ? 8 : 12)) {
      case 0:
      case 1:
        return this.#object(depth);
      case 2:
        return this.#array(depth);
      case 3:
        return this.#chance(0.3) ? this.#options(depth) : { anyOf: [this.value(depth + 1), this.value(depth + 1)] };
      case 4:
        return { type: "object", additionalProperties: this.value(depth + 1), maxProperties: this.#some(counts) };
      case 5:
        return this.#chance(0.1) ? this.#strange(depth) : this.#leaf();
      case 6: {
        // A chain with the maximum depth of a schema, sometimes deeper.
        let chain = this.#leaf();
        for (let i = this.#below(this.#chance(0.1) ? 140 : 20); i > 0; i--) chain = { type: "array", items: chain };
        return chain;
      }
      default:
        return this.#leaf();
    }
  }

  /** Schemas at or beyond a limit. */
  #strange(depth: number): unknown {
    return this.#some<() => unknown>([
      () => false,
      () => ({ allOf: [this.value(depth + 1)] }),
      () => ({ not: {} }),
      () => ({ type: "string", pattern: "^a", format: "date" }),
      () => ({ $ref: "#/$defs/gone" }),
      () => ({ $ref: "#" }),
      () => ({ enum: this.#list(3000, (i) => i) }),
      () => ({ const: "x".repeat(this.#below(80_000)) }),
      () => ({ type: "array", prefixItems: this.#list(2000, () => true), minItems: 2000 }),
      () => ({ type: "array", minItems: 1e9, items: { type: "array", minItems: 1e9, items: { type: "null" } } }),
    ])();
  }

  /** Schemas whose cost grows faster than their length: multiplying parses, options that differ in one of many properties. */
  crowd(): unknown {
    const size = this.#some([20, 60, 100]);
    const ref = (i: number): Schema => ({ $ref: `#/$defs/d${i % size}` });
    return this.#some<() => unknown>([
      () => ({
        ...ref(0),
        $defs: Object.fromEntries(
          this.#list(size, (i) => [
            `d${i}`,
            { anyOf: [ref(i + 1), { type: "array", items: ref(7 * i) }, { type: "null" }] },
          ]) as [string, unknown][],
        ),
      }),
      () => ({
        oneOf: this.#list(2 * size, (i) => ({
          type: "object",
          properties: Object.fromEntries([
            ...(this.#list(100, (k) => [`k${k}`, true]) as [string, unknown][]),
            ...(this.#list(4, (k) => [`m${k}`, { enum: [1] }]) as [string, unknown][]),
            ["a", { const: i % 16 }],
            ["b", { const: Math.floor(i / 16) }],
          ]),
          required: ["m0", "m1", "m2", "m3", "a", "b"],
        })),
      }),
      () => ({
        anyOf: this.#list(8 * size, (i) => ({ type: "string", minLength: i, maxLength: i + 20 + this.#below(50) })),
      }),
      () => ({
        anyOf: this.#list(8 * size, (i) => ({ type: "number", minimum: i + this.#random(), maximum: 1e9 + i })),
      }),
      () => {
        let inner: unknown = { type: "null" };
        for (let i = 0; i < 8; i++)
          inner = {
            anyOf: [
              { type: "array", items: inner },
              { type: "array", prefixItems: [inner] },
            ],
          };
        return inner;
      },
    ])();
  }

  /** Definitions that refer to each other through arrays and objects and, in a tenth of the schemas, directly in a cycle. */
  definitions(): Schema {
    const mayCircle = this.#chance(0.1);
    const ref = (from: number): Schema => ({ $ref: `#/$defs/d${from + this.#below(4 - from)}` });
    const definition = (i: number): unknown => {
      const direct = (): unknown => (mayCircle || i < 3 ? ref(mayCircle ? 0 : i + 1) : this.#numeric());
      return this.#some<() => unknown>([
        () => ({ anyOf: [{ type: "null" }, direct(), direct(), { type: "array", items: ref(0) }] }),
        () => ({ type: "array", items: ref(0), maxItems: 3 }),
        () => ({ type: "object", properties: { [`n${i}`]: ref(0), value: this.#numeric() } }),
        () => direct(),
        () => this.#options(40),
      ])();
    };
    return Object.fromEntries([0, 1, 2, 3].map((i) => [`d${i}`, definition(i)]));
  }
}

/** A schema as a client could send it. */
export function hostileSchema(seed: number): unknown {
  const maker = new Maker(seed);
  const root = seed % 40 === 0 ? maker.crowd() : maker.value(0);
  const schema = typeof root === "object" && root !== null ? { $defs: maker.definitions(), ...root } : root;
  return JSON.parse(JSON.stringify(schema)); // as received from a client: without infinities
}
