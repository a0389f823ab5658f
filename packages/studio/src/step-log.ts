/**
 * Reads the official cookbook's log of a step: a tree of headings, texts, conversations and tables (`train_logtree.json`, next to
 * `train_rollout_summaries.jsonl`). Many environments record their texts only there. The tree is flattened to a list of names and texts with
 * bounded size; an invalid file gives an empty list.
 */
import type { StepLogEntry } from "@tinklet/wire";
import { readPlainFile } from "./plain-file.ts";

const maxBytes = 32 * 1024 * 1024;
const maxEntries = 4000;
const maxDepth = 60;
/** Maximum characters of one text, and of all texts. */
const maxText = 20_000;
const maxCharacters = 2_000_000;

/** @param file - a rollout summary file; the log is in the same folder. */
export async function readStepLog(file: string): Promise<readonly StepLogEntry[]> {
  const path = file.replace(/_rollout_summaries\.jsonl$/, "_logtree.json");
  if (path === file) return [];
  try {
    const text = await readPlainFile(path, maxBytes);
    if (text === undefined) return [];
    if (typeof text !== "string") return [{ level: 1, name: "The log is too large to be shown.", text: "" }];
    return flattenLog(JSON.parse(text) as unknown);
  } catch {
    return []; // missing, incomplete, or not a log tree
  }
}

type Node = Readonly<Record<string, unknown>>;
const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value);
const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** Flattens a log tree to entries, in order. */
export function flattenLog(tree: unknown): StepLogEntry[] {
  const found: StepLogEntry[] = [];
  let room = maxCharacters;
  const add = (level: number, name: string, text: string): void => {
    if (found.length >= maxEntries || room <= 0) return;
    const entry = { level, name: name.slice(0, 200), text: text.slice(0, Math.min(maxText, room)) };
    room -= entry.name.length + entry.text.length;
    found.push(entry);
  };
  const visit = (node: unknown, level: number, depth: number): number => {
    if (!isNode(node) || depth > maxDepth || found.length >= maxEntries) return level;
    const tag = String(node["tag"]);
    const heading = /^h([1-6])$/.exec(tag)?.[1];
    if (heading !== undefined || tag === "summary") {
      const below = heading === undefined ? level + 1 : Number(heading);
      add(below, textOf(node, depth), "");
      return below;
    }
    const { data } = node as { data?: unknown };
    if (isNode(data) && data["type"] === "conversation") {
      for (const one of listOf(data["messages"]))
        if (isNode(one)) add(level, String(one["role"] ?? "message"), contentOf(one["content"]));
      return level;
    }
    const children = listOf(node["children"]);
    if (tag === "thead") return level;
    if (tag === "tr") {
      const [name = "", ...cells] = children.map((cell) => textOf(cell, depth));
      add(level, name, cells.join(" · "));
      return level;
    }
    const text = children.filter((child) => typeof child === "string").join("");
    if (text.trim() !== "") add(level, "", unescaped(text));
    let inside = level;
    for (const child of children) inside = visit(child, inside, depth + 1);
    return level;
  };
  visit(isNode(tree) ? tree["root"] : undefined, 1, 0);
  return found;
}

/** The text of a node and its descendants. */
function textOf(node: unknown, depth: number): string {
  if (typeof node === "string") return unescaped(node);
  if (!isNode(node) || depth > maxDepth) return "";
  return listOf(node["children"])
    .map((child) => textOf(child, depth + 1))
    .join("");
}

/** A message's content: a string, or a list of parts. */
function contentOf(content: unknown): string {
  if (typeof content === "string") return content;
  const parts = listOf(content).map((part) => {
    const text = isNode(part) ? (part["text"] ?? part["thinking"] ?? part["raw_text"]) : part;
    return typeof text === "string" ? text : (JSON.stringify(part) ?? "");
  });
  return parts.join("\n");
}

const signs: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', "#x27": "'", "#39": "'", amp: "&" };
/** Texts in the tree are HTML-escaped. */
const unescaped = (text: string): string =>
  text.replace(/&(lt|gt|quot|amp|#x27|#39);/g, (_, sign: string) => signs[sign]!);
