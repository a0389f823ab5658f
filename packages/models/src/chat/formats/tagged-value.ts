/** Arguments that a family writes unquoted between tags, instead of as JSON. */
import { parseJsonValue } from "../json-value.ts";

/** The `type` of an argument in a tool's schema, if present. */
export function typeOfArgument(schema: unknown, name: string): unknown {
  const properties = (schema as { properties?: Record<string, { type?: unknown } | null> } | null | undefined)
    ?.properties;
  return typeof properties === "object" && properties !== null && Object.hasOwn(properties, name)
    ? properties[name]?.type
    : undefined;
}

/** Converts the value to JSON: a string unless the schema has another type and the text parses as JSON. */
export function taggedValue(text: string, type: unknown): string {
  if (type === undefined || type === "string") return JSON.stringify(text);
  return parseJsonValue(text) === undefined ? JSON.stringify(text) : text.trim();
}
