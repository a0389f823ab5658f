/**
 * Lists that a convention writes as one attribute for each leaf: `llm.input_messages.0.message.role` (OpenInference) and
 * `gen_ai.prompt.0.role` (OpenLLMetry).
 */
import type { JsonValue } from "@tinklet/wire";
import type { Attributes } from "./received-span.ts";

type Node = { [key: string]: JsonValue | Node };

/**
 * The list below a prefix; empty if no attribute has the prefix. Indexes only order the entries: a large index allocates no list of its size.
 *
 * @param prefix - with its last dot
 */
export function indexedList(attributes: Attributes, prefix: string): JsonValue[] {
  const root = newNode();
  let isEmpty = true;
  for (const [key, value] of Object.entries(attributes)) {
    if (!key.startsWith(prefix)) continue;
    const path = key.slice(prefix.length).split(".");
    if (path.length > maxPath || !/^\d{1,6}$/.test(path[0] ?? "")) continue;
    isEmpty = false;
    let at = root;
    for (const name of path.slice(0, -1)) {
      const found = at[name];
      const next = isNode(found) ? found : newNode();
      at[name] = next;
      at = next;
    }
    at[path.at(-1) as string] = value;
  }
  return isEmpty ? [] : listOf(root);
}

const maxPath = 12;
const newNode = (): Node => Object.create(null) as Node;
const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value);

/** Nodes whose names are all numbers are lists. */
function jsonOfNode(value: JsonValue | Node): JsonValue {
  if (!isNode(value)) return value;
  const names = Object.keys(value);
  if (names.length > 0 && names.every((name) => /^\d{1,6}$/.test(name))) return listOf(value);
  const made = Object.create(null) as Record<string, JsonValue>;
  for (const name of names) made[name] = jsonOfNode(value[name] as JsonValue | Node);
  return made;
}

const listOf = (node: Node): JsonValue[] =>
  Object.keys(node)
    .sort((a, b) => Number(a) - Number(b))
    .map((name) => jsonOfNode(node[name] as JsonValue | Node));
