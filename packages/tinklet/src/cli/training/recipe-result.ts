/** The result block that ends `recipe run`: the metric before and after, answers, steps, tokens, time, and the next commands. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import type { RecipeResult } from "@tinklet/cookbook";
import type { Context } from "../context.ts";
import { counted, formatCount, formatDuration } from "../output/format.ts";
import { shellWord, showAnswers } from "./result-block.ts";

/** A recipe that ran to its end. */
export interface FinishedRecipe {
  /** Name of the recipe, or its file. */
  readonly recipe: string;
  /** Whether `tinklet eval` can measure models by it. */
  readonly hasTasks: boolean;
  readonly folder: string;
  readonly seconds: number;
  readonly result: Exclude<RecipeResult, { readonly stopped: string }>;
}

/** Folders of the stages, the one trained last at the end. */
function stagesOf(folder: string): string[] {
  const named = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : [];
  const record = (name: string) => join(folder, name, "checkpoints.jsonl");
  return named
    .filter((entry) => entry.isDirectory() && existsSync(record(entry.name)))
    .map(({ name }) => ({ path: `${folder}/${name}`, atMs: statSync(record(name)).mtimeMs }))
    .toSorted((a, b) => a.atMs - b.atMs)
    .map(({ path }) => path);
}

export async function showRecipeResult(
  { recipe, hasTasks, folder, seconds, result }: FinishedRecipe,
  { output, isLocal, isAttached, studioUrl }: Pick<Context, "output" | "isLocal" | "isAttached" | "studioUrl">,
): Promise<void> {
  const { RunFolder } = await import("@tinklet/cookbook");
  const { metric, before, after, better, answers = [] } = result;
  const stages = stagesOf(folder);
  const rows = (await Promise.all(stages.map((stage) => RunFolder.at(stage).readMetrics()))).flat();
  const trained = rows.filter((row) => row["num_tokens"] !== undefined || row["num_tokens:sum"] !== undefined);
  const tokens = trained.reduce((sum, row) => sum + (row["num_tokens"] ?? row["num_tokens:sum"] ?? 0), 0);
  const isBetter = better === "lower" ? after < before : after > before;
  const verdict = after === before ? "unchanged" : isBetter ? "better" : "worse";
  output.line(`${metric}: ${before.toFixed(3)} before, ${after.toFixed(3)} after (${verdict}).`);
  const what =
    stages.length === 0 ? "Nothing was trained" : `${counted(trained.length, "step")}, ${formatCount(tokens)} tokens`;
  output.line(`Training  ${what}, ${formatDuration(seconds)}`);
  const url = isAttached ? studioUrl("/runs") : undefined;
  if (url !== undefined) output.line(`Studio    ${url}`);
  showAnswers(answers, "questions of the recipe", output);
  const local = isLocal ? " --local" : "";
  const last = stages.at(-1);
  if (last === undefined) return;
  output.line();
  output.line(`  npx tinklet chat${local} --from ${shellWord(last)}`);
  output.line(
    hasTasks
      ? `  npx tinklet eval ${shellWord(recipe)}${local} --from ${shellWord(last)} --base`
      : `  npx tinklet studio ${shellWord(folder)}`,
  );
  output.line(`  npx tinklet export ${shellWord(last)}${local} --format gguf --out model.gguf`);
}
