/** Decides whether no value fits two of several schemas, as `oneOf` requires. Conservative: true only in simple cases. */
import type { GrammarBudget } from "./budget.ts";

const typesOf = (schema: Readonly<Record<string, unknown>>): readonly string[] | undefined => {
  const fixed = valuesOf(schema);
  if (fixed !== undefined) return [...new Set(fixed.map(typeOf))];
  const { type } = schema;
  if (typeof type === "string") return [type];
  return Array.isArray(type) ? (type as string[]) : undefined;
};

const typeOf = (value: unknown): string =>
  value === null ? "null" : Array.isArray(value) ? "array" : typeof value === "bigint" ? "number" : typeof value;

const valuesOf = (schema: Readonly<Record<string, unknown>>): readonly unknown[] | undefined => {
  if (schema["const"] !== undefined) return [schema["const"]];
  return Array.isArray(schema["enum"]) ? schema["enum"] : undefined;
};

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const kindOf = (type: string): string => (type === "integer" ? "number" : type);

/** The constants of an enum or const, as keys. */
function keysOf(schema: unknown, budget: GrammarBudget): ReadonlySet<string> | undefined {
  const values = isRecord(schema) ? valuesOf(schema) : undefined;
  if (values === undefined) return undefined;
  budget.spend(values.length);
  if (values.some((value) => typeof value === "object" && value !== null)) return undefined;
  return new Set(values.map((value) => `${typeOf(value)} ${String(value)}`));
}

/**
 * Takes time linear in the schemas, except for objects without a property that distinguishes all of them: these are compared in pairs.
 *
 * @param schemas - options of a `oneOf`
 * @throws GrammarTooLargeError
 */
export function areApart(schemas: readonly unknown[], budget: GrammarBudget): boolean {
  if (schemas.length < 2) return true;
  const facts = schemas.map((schema) => factsOf(schema, budget));
  const taken = new Set<string>();
  const fixedKinds = new Set<string>();
  const openKinds = new Set<string>();
  const objects: Facts[] = [];
  for (const each of facts) {
    if (each.kinds === undefined) return false;
    for (const key of each.keys ?? []) {
      if (taken.has(key)) return false;
      taken.add(key);
    }
    for (const kind of each.kinds) {
      if (each.keys !== undefined) fixedKinds.add(kind);
      else if (kind === "object") objects.push(each);
      else if (openKinds.has(kind)) return false;
      else openKinds.add(kind);
    }
  }
  for (const kind of openKinds) if (fixedKinds.has(kind)) return false;
  if (objects.length < 2) return true;
  return objects.every(({ kinds }) => kinds?.size === 1) && areObjectsApart(objects, budget);
}

/** Objects without a property that distinguishes all of them are compared in pairs. */
const mostCompared = 256;

function areObjectsApart(objects: readonly Facts[], budget: GrammarBudget): boolean {
  for (const name of objects[0]!.marks.keys()) {
    const taken = new Set<string>();
    const isMark = objects.every(({ marks }) => {
      const keys = marks.get(name);
      budget.spend(1 + (keys?.size ?? 0));
      if (keys === undefined) return false;
      const { size } = taken;
      for (const key of keys) taken.add(key);
      return taken.size === size + keys.size;
    });
    if (isMark) return true;
  }
  if (objects.length > mostCompared) return false;
  return objects.every((one, i) => objects.slice(i + 1).every((other) => hasOtherMark(one, other, budget)));
}

const hasOtherMark = (a: Facts, b: Facts, budget: GrammarBudget): boolean => {
  budget.spend(1);
  for (const [name, keys] of a.marks) {
    const others = b.marks.get(name);
    budget.spend(1 + (others === undefined ? 0 : keys.size / 8));
    if (others !== undefined && areDisjoint(keys, others)) return true;
  }
  return false;
};

interface Facts {
  readonly kinds: ReadonlySet<string> | undefined;
  readonly keys: ReadonlySet<string> | undefined;
  /** Constant values of required properties, which distinguish the kinds of objects. */
  readonly marks: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Maximum number of required properties that are examined. */
const mostMarks = 256;

function factsOf(schema: unknown, budget: GrammarBudget): Facts {
  const marks = new Map<string, ReadonlySet<string>>();
  if (!isRecord(schema)) return { kinds: schema === false ? new Set() : undefined, keys: undefined, marks };
  const types = typesOf(schema);
  const { properties, required } = schema;
  if (isRecord(properties) && Array.isArray(required)) {
    for (const name of required.slice(0, mostMarks)) {
      const keys =
        typeof name === "string" && Object.hasOwn(properties, name) ? keysOf(properties[name], budget) : undefined;
      if (keys !== undefined) marks.set(name as string, keys);
    }
  }
  return { kinds: types === undefined ? undefined : new Set(types.map(kindOf)), keys: keysOf(schema, budget), marks };
}

const areDisjoint = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean => {
  for (const each of a) if (b.has(each)) return false;
  return true;
};
