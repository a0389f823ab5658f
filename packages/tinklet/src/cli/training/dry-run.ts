/** `train --dry-run`: tokens, steps, time and cost of a run, without training. */
import type { BatchedDataset, ModelPrice, PreparedData, SupervisedDatum } from "@tinklet/cookbook";
import { bundledModel } from "@tinklet/models/config";
import type { TrainSettings } from "../commands/train.ts";
import type { Context } from "../context.ts";
import type { ChosenModel } from "../model.ts";
import { formatCount, formatDollars, formatDuration } from "../output/format.ts";

interface Plan {
  readonly file: string;
  readonly model: ChosenModel;
  readonly data: PreparedData;
  readonly dataset: BatchedDataset<SupervisedDatum>;
  readonly totalSteps: number;
  readonly settings: TrainSettings;
  readonly maxLength: number | undefined;
  readonly price: ModelPrice | undefined;
  /** Absent if `--learning-rate` is missing and the model has no default. */
  readonly learningRate: number | undefined;
}

export async function dryRun(plan: Plan, context: Context): Promise<void> {
  const { data, totalSteps, settings, price, dataset } = plan;
  const { trainingCost } = await import("@tinklet/cookbook");
  const { summary } = data;
  const passes = totalSteps / dataset.batchesPerEpoch;
  const tokens = Math.round(summary.tokens * passes);
  const evaluations =
    settings.evalEvery === 0 || data.test.length === 0 ? 0 : Math.ceil(totalSteps / settings.evalEvery) + 1;
  const evaluate = evaluations * data.testSummary.tokens;
  const cost = price === undefined ? undefined : trainingCost(price, { train: tokens, evaluate });
  const measured = context.isLocal && context.keepsNothing ? await measure(plan, context) : undefined;
  const seconds =
    measured === undefined ? undefined : tokens / measured.tokensPerSecond + evaluate / (3 * measured.tokensPerSecond);
  const masked = summary.tokens === 0 ? 0 : 1 - summary.lossTokens / summary.tokens;
  context.output.result({
    title: `${plan.file}: dry run`,
    columns: ["Property", "Value"],
    rows: [
      ["Examples", `${formatCount(data.train.length)} to train on, ${formatCount(data.test.length)} to test on`],
      [
        "Tokens",
        `${formatCount(summary.tokens)} per epoch, ${formatCount(tokens)} in all, ${formatCount(evaluate)} for evaluation`,
      ],
      ["Read only", `${(masked * 100).toFixed(1)} % of the tokens carry no loss`],
      ["Length", `${formatCount(summary.mean)} on average, ${formatCount(summary.longest)} longest`],
      [
        "Too long",
        plan.maxLength === undefined
          ? "unknown: give --max-length"
          : `${summary.truncated} cut, ${summary.dropped} dropped, at ${formatCount(plan.maxLength)} tokens`,
      ],
      ["Steps", `${formatCount(totalSteps)} of ${settings.batchSize} examples`],
      [
        "Learning rate",
        plan.learningRate === undefined
          ? "none: training needs --learning-rate"
          : `${Number(plan.learningRate.toPrecision(3))}, ${settings.schedule}`,
      ],
      [
        "Time here",
        seconds === undefined
          ? `not measured: ${context.isLocal ? "leave out --from" : "add --local"}`
          : `about ${formatDuration(seconds)}, measured at ${formatCount(measured?.tokensPerSecond ?? 0)} tokens/s`,
      ],
      ["Cost", await costText(plan.model.name, cost, price)],
    ],
    json: {
      file: plan.file,
      model: plan.model.name,
      train_examples: data.train.length,
      test_examples: data.test.length,
      tokens_per_epoch: summary.tokens,
      tokens_total: tokens,
      tokens_evaluation: evaluate,
      loss_tokens_per_epoch: summary.lossTokens,
      masked_share: masked,
      longest: summary.longest,
      truncated: summary.truncated,
      dropped: summary.dropped,
      steps: totalSteps,
      learning_rate: plan.learningRate ?? null,
      local_seconds: seconds ?? null,
      local_tokens_per_second: measured?.tokensPerSecond ?? null,
      cost_usd: cost ?? null,
      prices_as_of: price?.asOf ?? null,
    },
  });
}

/** The text for the cost of a run. @param cost - US dollars, if a price is known */
export async function costText(
  model: string,
  cost: number | undefined,
  price: ModelPrice | undefined,
): Promise<string> {
  if (cost !== undefined) return `${formatDollars(cost)} on the hosted service, by prices of ${price?.asOf}`;
  if (model === bundledModel) return "nothing: this model is local";
  const { priceSource } = await import("@tinklet/cookbook");
  return `no price known for ${model}: see ${priceSource}, then --prices`;
}

/** Trains two steps of a temporary adapter: one to warm up, one to measure. */
async function measure(
  { model, dataset, settings, learningRate = 1e-4 }: Plan, // the time of a step does not depend on the rate
  context: Context,
): Promise<{ tokensPerSecond: number }> {
  const service = await context.service(model.serve);
  context.output.progress("Measuring two steps …");
  const trainer = await service.createLoraTrainingClient({ baseModel: model.name, rank: settings.rank, seed: 0 });
  const batch = dataset.batch(0, 0);
  await trainer.step(batch, "cross_entropy", { learningRate });
  const startMs = performance.now();
  const { tokens } = await trainer.step(batch, "cross_entropy", { learningRate });
  const tokensPerSecond = tokens / ((performance.now() - startMs) / 1000);
  await trainer.unload();
  context.output.endProgress();
  return { tokensPerSecond };
}
