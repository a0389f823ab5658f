/**
 * Converts the common part of JSON Schema to nodes of a grammar. Every text of the grammar satisfies the schema; a keyword that cannot be
 * enforced is rejected by name; annotations are ignored. Some permitted values are never written: undeclared properties next to declared
 * ones, white space, numbers of more than 15 digits.
 */
import { InputError } from "../errors.ts";
import { type GrammarBudget, grammarField } from "./budget.ts";
import { createJsonNodes, type JsonNodes } from "./json-nodes.ts";
import type { Node } from "./machine.ts";
import type { Property } from "./names-machine.ts";
import { formatNames, formatPattern } from "./pattern/formats.ts";
import { PatternProblem } from "./pattern/parse-pattern.ts";
import { areApart } from "./schema-apart.ts";
import type { StringBounds } from "./string-machine.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Limits on one schema. */
const most = { schemas: 1000, depth: 128, literals: 65_536, values: 10_000, properties: 512 };

/** Steps of reading one schema with a few keywords. */
const schemaSteps = 16;

/** Annotations, which have no effect on validity. */
const annotations = new Set(
  "$schema $id $anchor $comment $defs definitions title description default examples example deprecated readOnly writeOnly".split(
    " ",
  ),
);

const keywordsOf: Readonly<Record<string, readonly string[]>> = {
  object: ["properties", "required", "additionalProperties", "maxProperties", "minProperties"],
  array: ["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
  string: ["minLength", "maxLength", "pattern", "format"],
  number: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  integer: ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
  boolean: [],
  null: [],
};

const bad = (at: string, problem: string, code = "bad_schema"): InputError =>
  new InputError(`${grammarField}${at}`, problem, { code });
const cannot = (at: string, keyword: string, why = "is not supported"): InputError =>
  bad(at, `the keyword ${JSON.stringify(keyword.slice(0, 100))} ${why}`, "unsupported_schema");

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const pointer = (key: string | number): string => `/${String(key).slice(0, 100)}`;

/** Every JSON object. */
export function anyObject(vocabulary: Vocabulary, budget: GrammarBudget): Node {
  const nodes = createJsonNodes(vocabulary, budget);
  const node = nodes.map(anyValue(nodes), Number.POSITIVE_INFINITY);
  nodes.settle();
  return node;
}

function anyValue(nodes: JsonNodes): Node {
  const infinite = Number.POSITIVE_INFINITY;
  const self: Node = nodes.later(() => any);
  const any = nodes.choice([
    nodes.string({ minLength: 0, maxLength: infinite }),
    nodes.number({ isInteger: false, least: -infinite, most: infinite, above: false, below: false }),
    nodes.texts(["true", "false", "null"]),
    nodes.array({ first: [], rest: self, minItems: 0, maxItems: infinite }),
    nodes.map(self, infinite),
  ]);
  return any;
}

/** @throws InputError naming the place and the keyword; GrammarTooLargeError. */
export function readSchema(vocabulary: Vocabulary, schema: unknown, budget: GrammarBudget): Node {
  const reader = new SchemaReader(vocabulary, schema, budget);
  const root = reader.read(schema, "", 0);
  reader.nodes.settle();
  return root;
}

class SchemaReader {
  readonly nodes: JsonNodes;
  readonly #budget: GrammarBudget;
  readonly #root: unknown;
  /** Keyed by the schema object: references to it give the same node. */
  readonly #read = new Map<unknown, Node>();
  #any: Node | undefined;
  #schemas = 0;
  #literals = 0;

  constructor(vocabulary: Vocabulary, root: unknown, budget: GrammarBudget) {
    this.nodes = createJsonNodes(vocabulary, budget);
    this.#budget = budget;
    this.#root = root;
  }

  read(schema: unknown, at: string, depth: number): Node {
    if (schema === true) return this.#anything();
    if (schema === false) return this.nodes.choice([]);
    if (!isObject(schema)) throw bad(at, "must be a JSON Schema: an object, true or false");
    const known = this.#read.get(schema);
    if (known !== undefined) return known;
    if (++this.#schemas > most.schemas) throw bad(at, `there are more than ${most.schemas} schemas in it`);
    if (depth > most.depth) throw bad(at, `it is more than ${most.depth} levels deep`);
    this.#budget.spend(schemaSteps);
    // Registered before its parts are read, because they may refer to it.
    let made: Node | undefined;
    this.#read.set(
      schema,
      this.nodes.later(() => made!),
    );
    made = this.#make(schema, at, depth + 1);
    return made;
  }

  #anything(): Node {
    this.#any ??= anyValue(this.nodes);
    return this.#any;
  }

  #make(schema: Readonly<Record<string, unknown>>, at: string, depth: number): Node {
    const given = Object.keys(schema).filter((key) => schema[key] !== undefined && !annotations.has(key));
    const alone = (keyword: string, beside: readonly string[] = []): void => {
      const other = given.find((key) => key !== keyword && !beside.includes(key));
      if (other !== undefined) throw cannot(at, other, `is not supported beside ${JSON.stringify(keyword)}`);
    };
    if (given.includes("$ref")) {
      alone("$ref");
      return this.#find(schema["$ref"], at, depth);
    }
    if (given.includes("allOf")) {
      alone("allOf");
      const list = this.#list(schema["allOf"], `${at}/allOf`);
      if (list.length !== 1) throw cannot(at, "allOf", "is supported with one schema only");
      return this.read(list[0], `${at}/allOf/0`, depth);
    }
    for (const keyword of ["anyOf", "oneOf"]) {
      if (!given.includes(keyword)) continue;
      alone(keyword);
      const list = this.#list(schema[keyword], at + pointer(keyword));
      if (list.length === 0) throw bad(at + pointer(keyword), "is empty");
      if (keyword === "oneOf" && !areApart(list, this.#budget)) {
        throw cannot(at, "oneOf", "is supported where no value can fit two of its schemas; use anyOf");
      }
      return this.nodes.choice(list.map((each, i) => this.read(each, `${at}/${keyword}/${i}`, depth)));
    }
    for (const keyword of ["const", "enum"]) {
      if (!given.includes(keyword)) continue;
      alone(keyword, ["type"]);
      const list = keyword === "const" ? [schema["const"]] : this.#list(schema["enum"], `${at}/enum`);
      const types = schema["type"] === undefined ? undefined : this.#types(schema["type"], `${at}/type`);
      const fitting = list.filter((value) => types === undefined || types.some((type) => isOfType(value, type)));
      if (fitting.length === 0) throw bad(at + pointer(keyword), "has no value that fits");
      return this.nodes.texts(fitting.map((value) => this.#text(value, at + pointer(keyword))));
    }
    return this.#typed(schema, given, { at, depth });
  }

  #typed(
    schema: Readonly<Record<string, unknown>>,
    given: readonly string[],
    { at, depth }: { readonly at: string; readonly depth: number },
  ): Node {
    const demands = given.filter((key) => key !== "type");
    const types = schema["type"] === undefined ? undefined : this.#types(schema["type"], `${at}/type`);
    // A keyword of another type does not apply to a value; an unknown keyword might, so it is rejected.
    for (const key of demands) {
      if (!Object.values(keywordsOf).some((keywords) => keywords.includes(key))) throw cannot(at, key);
    }
    // Some formats apply to numbers, so that an unknown one is rejected beside any type.
    if (given.includes("format")) this.#format(schema["format"], at);
    if (types === undefined && demands.length === 0) return this.#anything();
    const wanted =
      types ?? Object.keys(keywordsOf).filter((type) => demands.every((key) => keywordsOf[type]!.includes(key)));
    const chosen = types === undefined ? wanted.slice(0, 1) : wanted;
    if (chosen.length === 0) throw bad(at, 'has keywords of several types; add "type"');
    const made = chosen.map((type) => {
      switch (type) {
        case "object":
          return this.#object(schema, at, depth);
        case "array":
          return this.#array(schema, at, depth);
        case "string":
          return this.#string(schema, at);
        case "boolean":
          return this.nodes.texts(["true", "false"]);
        case "null":
          return this.nodes.texts(["null"]);
        default:
          return this.#number(schema, at, type === "integer");
      }
    });
    return made.length === 1 ? made[0]! : this.nodes.choice(made);
  }

  #types(value: unknown, at: string): readonly string[] {
    const list = typeof value === "string" ? [value] : this.#list(value, at);
    for (const type of list) {
      if (typeof type !== "string" || !Object.hasOwn(keywordsOf, type)) {
        throw bad(
          at,
          `${JSON.stringify(String(type).slice(0, 100))} is not a type; use ${Object.keys(keywordsOf).join(", ")}`,
        );
      }
    }
    if (list.length === 0) throw bad(at, "is empty");
    return [...new Set(list as readonly string[])];
  }

  #object(schema: Readonly<Record<string, unknown>>, at: string, depth: number): Node {
    const { properties = {}, required = [], additionalProperties: extra = true } = schema;
    if (!isObject(properties)) throw bad(`${at}/properties`, "must be an object");
    const needed = new Set(this.#list(required, `${at}/required`));
    for (const name of needed) if (typeof name !== "string") throw bad(`${at}/required`, "must be a list of names");
    const declared = Object.keys(properties);
    this.#budget.spend(declared.length);
    const names = [...declared, ...[...(needed as Set<string>)].filter((name) => !Object.hasOwn(properties, name))];
    if (names.length > most.properties) {
      throw bad(`${at}/properties`, `must have at most ${most.properties} properties, got ${names.length}`);
    }
    const maxProperties = this.#count(schema, "maxProperties", at) ?? Number.POSITIVE_INFINITY;
    if ((this.#count(schema, "minProperties", at) ?? 0) > needed.size) {
      throw cannot(at, "minProperties", "is supported up to the number of required properties");
    }
    if (names.length === 0) {
      if (extra === false) return this.nodes.texts(["{}"]);
      return this.nodes.map(this.read(extra, `${at}/additionalProperties`, depth), maxProperties);
    }
    if (names.length > maxProperties) {
      throw cannot(at, "maxProperties", "must be at least the number of declared properties");
    }
    const list = names.map((name): Property => {
      const isDeclared = Object.hasOwn(properties, name);
      const own = isDeclared ? properties[name] : extra;
      this.#weigh(name, at);
      const value = this.read(own, at + (isDeclared ? `/properties${pointer(name)}` : "/additionalProperties"), depth);
      return { name, value, isRequired: needed.has(name) };
    });
    return this.nodes.object(list);
  }

  #array(schema: Readonly<Record<string, unknown>>, at: string, depth: number): Node {
    const { items = true, prefixItems } = schema;
    const minItems = this.#count(schema, "minItems", at) ?? 0;
    const maxItems = this.#count(schema, "maxItems", at) ?? Number.POSITIVE_INFINITY;
    const { uniqueItems } = schema;
    if (uniqueItems !== undefined && uniqueItems !== false && maxItems > 1) throw cannot(at, "uniqueItems");
    if (minItems > maxItems) return this.nodes.choice([]);
    // Before draft 2020-12, `items` could be a list of schemas.
    if (Array.isArray(items)) throw cannot(at, "items", "is supported as one schema; use prefixItems for a list");
    const first = prefixItems === undefined ? [] : this.#list(prefixItems, `${at}/prefixItems`);
    return this.nodes.array({
      first: first.map((each, i) => this.read(each, `${at}/prefixItems/${i}`, depth)),
      rest: items === false ? undefined : this.read(items, `${at}/items`, depth),
      minItems,
      maxItems,
    });
  }

  #string(schema: Readonly<Record<string, unknown>>, at: string): Node {
    const minLength = this.#count(schema, "minLength", at) ?? 0;
    const maxLength = this.#count(schema, "maxLength", at) ?? Number.POSITIVE_INFINITY;
    if (minLength > maxLength) return this.nodes.choice([]);
    const { pattern, format } = schema;
    const bounds = { minLength, maxLength };
    if (pattern === undefined && format === undefined) return this.nodes.string(bounds);
    if (pattern === undefined) return this.#pattern(this.#format(format, at), bounds, `${at}/format`);
    if (format !== undefined) throw cannot(at, "format", 'is not supported beside "pattern"');
    if (typeof pattern !== "string") throw bad(`${at}/pattern`, "must be a string");
    return this.#pattern(pattern, bounds, `${at}/pattern`);
  }

  #format(name: unknown, at: string): string {
    if (typeof name !== "string") throw bad(`${at}/format`, "must be a string");
    const pattern = formatPattern(name);
    if (pattern !== undefined) return pattern;
    const shown = JSON.stringify(name.slice(0, 100));
    throw bad(
      `${at}/format`,
      `${shown} is not supported; use ${formatNames.join(", ")}, or leave it out`,
      "unsupported_schema",
    );
  }

  #pattern(pattern: string, bounds: StringBounds, at: string): Node {
    try {
      return this.nodes.pattern(pattern, bounds);
    } catch (error) {
      if (!(error instanceof PatternProblem)) throw error;
      throw bad(at, error.message, error.isUnsupported ? "unsupported_schema" : "bad_schema");
    }
  }

  #number(schema: Readonly<Record<string, unknown>>, at: string, isInteger: boolean): Node {
    const bound = (keyword: string, none: number): number => {
      const value = schema[keyword];
      if (value === undefined) return none;
      const number = typeof value === "bigint" ? Number(value) : value;
      if (typeof number !== "number" || !Number.isFinite(number)) throw bad(at + pointer(keyword), "must be a number");
      return number;
    };
    const minimum = bound("minimum", Number.NEGATIVE_INFINITY);
    const maximum = bound("maximum", Number.POSITIVE_INFINITY);
    const lower = bound("exclusiveMinimum", Number.NEGATIVE_INFINITY);
    const upper = bound("exclusiveMaximum", Number.POSITIVE_INFINITY);
    return this.nodes.number({
      isInteger,
      least: Math.max(minimum, lower),
      most: Math.min(maximum, upper),
      above: lower >= minimum && lower > Number.NEGATIVE_INFINITY,
      below: upper <= maximum && upper < Number.POSITIVE_INFINITY,
    });
  }

  #count(schema: Readonly<Record<string, unknown>>, keyword: string, at: string): number | undefined {
    const value = schema[keyword];
    if (value === undefined) return undefined;
    if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > 1e9) {
      throw bad(at + pointer(keyword), "must be a whole number from 0 to 1000000000");
    }
    return value as number;
  }

  #list(value: unknown, at: string): readonly unknown[] {
    if (!Array.isArray(value)) throw bad(at, "must be a list");
    if (value.length > most.values) throw bad(at, `must have at most ${most.values} entries, got ${value.length}`);
    this.#budget.spend(value.length);
    return value;
  }

  /** A value as JSON. */
  #text(value: unknown, at: string): string {
    const text = JSON.stringify(value, (_key, each: unknown) => {
      if (typeof each === "bigint") throw bad(at, "has a number that is too large");
      return each;
    });
    if (text === undefined) throw bad(at, "has a value that is not JSON");
    this.#weigh(text, at);
    return text;
  }

  #weigh(text: string, at: string): void {
    this.#literals += text.length;
    this.#budget.spend(text.length / 8);
    if (this.#literals > most.literals) {
      throw bad(at, `names and fixed values must have at most ${most.literals} characters in total`);
    }
  }

  /** Resolves a reference. */
  #find(ref: unknown, from: string, depth: number): Node {
    const at = `${from}/$ref`;
    if (typeof ref !== "string") throw bad(at, "must be a string");
    if (!/^#(?:\/|$)/.test(ref)) {
      throw cannot(from, "$ref", "is supported within the schema only, as in #/$defs/NAME");
    }
    let target: unknown = this.#root;
    const path = ref.split("/").slice(1);
    if (path.length > most.depth) throw bad(at, `it is more than ${most.depth} levels deep`);
    for (const part of path) {
      const key = decodePart(part, at).replaceAll("~1", "/").replaceAll("~0", "~");
      const holds = (isObject(target) || Array.isArray(target)) && Object.hasOwn(target, key);
      if (!holds) throw bad(at, `${JSON.stringify(ref.slice(0, 100))} leads nowhere`);
      target = (target as Readonly<Record<string, unknown>>)[key];
    }
    return this.read(target, ref.slice(1, 200), depth);
  }
}

function decodePart(part: string, at: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw bad(at, "is not a reference");
  }
}

/** Whether a value is of a type. */
export function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "array":
      return Array.isArray(value);
    case "object":
      return isObject(value);
    case "integer":
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}
