/** The shell commands that export traces and train on them. */
import { quoted } from "./chat-code.ts";
import { oneLine } from "./text.ts";
import type { ListFilters } from "./trace-list.ts";

export type TrainMethod = "sft" | "dpo";

/** Some traces, or all that filters select. */
export type TrainSelection = { readonly traceIds: readonly string[] } | { readonly filters: ListFilters };

/** Traces that one export may name: the server's limit. */
export const maxSelected = 1000;

/** Whether an export can select these: pairs are made of several traces, which a text cannot select. */
export const canExport = (method: TrainMethod, selection: TrainSelection): boolean =>
  method === "sft" || "traceIds" in selection || selection.filters.text === undefined;

/** @param server - address of the server, such as `http://127.0.0.1:8471` */
export function trainCommands(
  method: TrainMethod,
  selection: TrainSelection,
  server: { readonly url: string; readonly needsKey: boolean },
): string {
  const chosen = "traceIds" in selection ? selection.traceIds.map(quoted) : optionsOf(selection.filters);
  const data = method === "sft" ? "data.jsonl" : "pairs.jsonl";
  const exported = ["npx tinklet traces export", ...chosen, ...(method === "dpo" ? ["--as dpo"] : []), `-o ${data}`];
  return [
    `export TINKER_BASE_URL=${quoted(server.url)} TINKER_API_KEY=${server.needsKey ? "tml-…" : "tml-local"}`,
    exported.join(" "),
    method === "sft"
      ? `npx tinklet train ${data} --name traces`
      : `npx tinklet recipe run dpo --data ${data} --name traces`,
  ].join("\n");
}

const optionsOf = ({ text, model, tool, error, rating }: ListFilters): string[] => [
  ...named({ text, model, tool, rating }),
  ...(error === undefined ? [] : [error === "true" ? "--error" : "--no-error"]),
];

/** Options with their values, which may begin with a dash. Values are one line: a terminal runs each line that is pasted. */
const named = (values: Readonly<Record<string, string | undefined>>): string[] =>
  Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}=${quoted(oneLine(value, 1000))}`],
  );
