/** Arguments that a family writes bare, between tags, instead of as JSON. */
import { parseJsonValue } from "../json-value.ts";

/** The type that a tool's schema gives to an argument, if it gives one. */
export function typeOfArgument(schema: unknown, name: string): unknown {
  const properties = (schema as { properties?: Record<string, { type?: unknown } | null> } | null | undefined)
    ?.properties;
  return typeof properties === "object" && properties !== null && Object.hasOwn(properties, name)
    ? properties[name]?.type
    : undefined;
}

/** The value as JSON: a text is one unless the schema says otherwise and it can be read so. */
export function taggedValue(text: string, type: unknown): string {
  if (type === undefined || type === "string") return JSON.stringify(text);
  return parseJsonValue(text) === undefined ? JSON.stringify(text) : text.trim();
}
