/** `recipe run --dry-run`: tokens, steps and cost of a recipe, without training. */
import type { ModelPrice, RecipeEstimate } from "@tinklet/cookbook";
import { formatCount } from "../output/format.ts";
import type { Output } from "../output/output.ts";
import { costText } from "./dry-run.ts";

/** An estimate with its recipe and model. */
export interface EstimatedRecipe {
  readonly name: string;
  readonly model: string;
  readonly estimate: RecipeEstimate;
  readonly price: ModelPrice | undefined;
}

export async function showEstimate({ name, model, estimate, price }: EstimatedRecipe, output: Output): Promise<void> {
  const { trainingCost } = await import("@tinklet/cookbook");
  const { stages, outside, total } = estimate;
  const cost = price === undefined ? undefined : trainingCost(price, total);
  const row = (label: string, steps: string, { train, evaluate, sample }: RecipeEstimate["total"]) => [
    label,
    steps,
    ...[train, evaluate, sample].map(formatCount),
  ];
  output.result({
    title: `${name}: dry run, ${model}`,
    columns: ["STAGE", "STEPS", "TRAINED", "READ", "SAMPLED"],
    rows: [
      ...stages.map(({ stage, steps, tokens }) => row(stage, formatCount(steps), tokens)),
      row("besides", "", outside),
      row("in all", "", total),
    ],
    json: {
      recipe: name,
      model,
      stages: stages.map(({ stage, steps, tokens }) => ({ stage, steps, ...tokens })),
      outside,
      total,
      cost_usd: cost ?? null,
      prices_as_of: price?.asOf ?? null,
    },
  });
  output.note(`Cost: ${await costText(model, cost, price)}`);
  output.note(
    "Counts are tokens. Sampled answers count with their maximum length; multi-turn conversations may need more.",
  );
}
