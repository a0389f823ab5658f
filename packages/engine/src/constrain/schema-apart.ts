/** Whether no value fits two of several schemas, as `oneOf` needs it. Says so only where it is plain to see. */

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

/** Texts, numbers and the like that are the only ones here, as keys. */
function keysOf(schema: unknown): ReadonlySet<string> | undefined {
  const values = isRecord(schema) ? valuesOf(schema) : undefined;
  if (values === undefined || values.some((value) => typeof value === "object" && value !== null)) return undefined;
  return new Set(values.map((value) => `${typeOf(value)} ${String(value)}`));
}

/** @param schemas - options of a `oneOf` */
export function areApart(schemas: readonly unknown[]): boolean {
  if (schemas.length > mostCompared) return false;
  const facts = schemas.map(factsOf);
  return facts.every((one, i) => facts.slice(i + 1).every((other) => isApart(one, other)));
}

/** Options are compared by twos. */
const mostCompared = 256;

interface Facts {
  readonly kinds: ReadonlySet<string> | undefined;
  readonly keys: ReadonlySet<string> | undefined;
  /** Values of required properties, where they are fixed: what tells one kind of object from another. */
  readonly marks: ReadonlyMap<string, ReadonlySet<string>>;
}

function factsOf(schema: unknown): Facts {
  const marks = new Map<string, ReadonlySet<string>>();
  if (!isRecord(schema)) return { kinds: schema === false ? new Set() : undefined, keys: undefined, marks };
  const types = typesOf(schema);
  const { properties, required } = schema;
  if (isRecord(properties) && Array.isArray(required)) {
    for (const name of required.slice(0, mostCompared)) {
      const keys = typeof name === "string" && Object.hasOwn(properties, name) ? keysOf(properties[name]) : undefined;
      if (keys !== undefined) marks.set(name as string, keys);
    }
  }
  return { kinds: types === undefined ? undefined : new Set(types.map(kindOf)), keys: keysOf(schema), marks };
}

const areDisjoint = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean => ![...a].some((each) => b.has(each));

function isApart(a: Facts, b: Facts): boolean {
  if (a.kinds !== undefined && b.kinds !== undefined && areDisjoint(a.kinds, b.kinds)) return true;
  if (a.keys !== undefined && b.keys !== undefined) return areDisjoint(a.keys, b.keys);
  // Objects alone: other types have no properties that could tell.
  const areObjects = [a, b].every(({ kinds }) => kinds?.size === 1 && kinds.has("object"));
  if (!areObjects) return false;
  return [...a.marks].some(([name, keys]) => {
    const others = b.marks.get(name);
    return others !== undefined && areDisjoint(keys, others);
  });
}
