/** `quickstart --rl`: reinforcement learning on sums of two numbers, rewarded if correct. */
import { join } from "node:path";
import type { Answer, Problem } from "@tinklet/cookbook";
import { bundledModel } from "@tinklet/models/config";
import type { Tokenizer } from "@tinklet/sdk";
import type { Context } from "../context.ts";
import { formatDuration } from "../output/format.ts";
import { terminalPlot } from "../plot/plot-terminal.ts";
import { cachedShare, StepLine } from "../training/step-line.ts";
import { dataFile, localService, type QuickstartOptions, saveAdapter, tellStudio } from "./quickstart-examples.ts";

/** A question and its correct answer. */
interface Sum extends Problem {
  readonly question: string;
  readonly right: string;
}

/** 20 × 48 of 1,000 questions: no question is used twice, so each step's reward is measured on unseen questions. */
const settings = { rank: 16, learningRate: 1.5e-3, groupSize: 8, groupsPerStep: 48, steps: 20 };

/** The reward: 1 if the answer is exactly the correct number, else 0. */
const reward =
  (tokenizer: Tokenizer) =>
  ({ tokens }: Answer, { right }: Sum): number => {
    const said = tokenizer.decode(tokens, { skipSpecialTokens: true }).trim();
    return said === right ? 1 : 0;
  };

const isRight = (answer: { readonly reward: number } | undefined) => answer?.reward === 1;

/** Selects answers with about the same share of correct ones as in the whole step. */
export function inProportion<T extends { readonly answer: { readonly reward: number } | undefined }>(
  given: readonly T[],
  shareRight: number,
  count = 5,
): readonly T[] {
  const [right, wrong] = [
    given.filter(({ answer }) => isRight(answer)),
    given.filter(({ answer }) => !isRight(answer)),
  ];
  const shown = new Set([...right.slice(0, Math.round(shareRight * count)), ...wrong].slice(0, count));
  return given.filter((one) => shown.has(one));
}

/** Reads the bundled sums. Their answers are used by the reward only. */
async function readSums(file: string, tokenizer: Tokenizer): Promise<Sum[]> {
  const { readExamples, renderPrompt } = await import("@tinklet/cookbook");
  return (await readExamples(file)).flatMap((example) => {
    if (example.kind !== "chat") return [];
    const [asked, answered] = example.messages;
    if (asked === undefined || answered === undefined) return [];
    return [
      { question: String(asked.content), right: String(answered.content), prompt: renderPrompt([asked], tokenizer) },
    ];
  });
}

export async function quickstartByReward(options: QuickstartOptions, context: Context): Promise<number> {
  const { output, signal } = context;
  const { RunFolder, trainPolicyGradient } = await import("@tinklet/cookbook");
  const { loadTokenizer } = await import("@tinklet/sdk");
  const startMs = performance.now();
  const { seed } = options;
  const tokenizer = await loadTokenizer(options.model);
  const problems = await readSums(dataFile(options.model, "arithmetic/train.jsonl"), tokenizer);
  const run = await RunFolder.open(options.out ?? join("runs", "quickstart-rl"));
  await run.clear(({ quickstart }) => quickstart !== undefined);
  const service = await localService(options.model, context);
  const trainer = await service.createLoraTrainingClient({
    ...{ name: "quickstart-rl", baseModel: bundledModel, rank: settings.rank, seed },
  });
  tellStudio(trainer, context);
  await run.writeConfig({ quickstart: "reward", model_name: bundledModel, seed, ...settings });
  const samplingParams = { maxTokens: 6, stop: [...tokenizer.eosTokenIds] };
  const steps = options.steps ?? settings.steps;
  const { learningRate, groupSize, groupsPerStep } = settings;
  output.note(
    `${output.style("Training", "bold")} on sums of two numbers: ${groupSize} answers to each of ${groupsPerStep} questions a step,`,
  );
  output.note("the reward is 1 for a right answer and 0 for a wrong one\n");
  const line = new StepLine(steps);
  const rewards: [number, number][] = [];
  let examples: readonly string[] = [];
  const loop = trainPolicyGradient({
    ...{
      trainer,
      problems,
      reward: reward(tokenizer),
      steps,
      learningRate,
      groupSize,
      groupsPerStep,
      samplingParams,
      seed,
      run,
      signal,
    },
  });
  for await (const event of loop) {
    if (event.type !== "step") continue;
    const { metrics, step, groups, prompts } = event;
    const mean = metrics["env/all/reward/total"] ?? 0;
    rewards.push([step, mean]);
    output.event({ type: "step", ...metrics, cached_prompt_tokens: prompts.cached });
    const tokens = groups.reduce(
      (sum, { problem, answers }) =>
        sum + answers.reduce((n, { tokens: own }) => n + own.length + problem.prompt.length, 0),
      0,
    );
    output.progress(line.text(step, tokens, { reward: mean.toFixed(3), ...cachedShare(prompts) }), {
      always: step === steps - 1,
    });
    const shown = inProportion(
      groups.map(({ problem, answers: [first] }) => ({ problem, answer: first })),
      mean,
    ).map(({ problem, answer }) => {
      const text = tokenizer.decode(answer?.tokens ?? [], { skipSpecialTokens: true }).trim();
      return `${problem.question.replace(/^What is (.*)\?$/, "$1 =")} ${text} ${isRight(answer) ? "✓" : "✗"}`;
    });
    if (step === 0) output.note(`At first: ${shown.join("   ")}`);
    examples = shown;
  }
  signal.throwIfAborted();
  const seconds = (performance.now() - startMs) / 1000;
  const adapter = await saveAdapter(trainer, service, run.path, context);
  // The first step samples with the untrained adapter; each step has 384 answers.
  const [first, last] = [rewards[0]?.[1] ?? 0, rewards.at(-1)?.[1] ?? 0];
  if (output.isJson) {
    output.event({ type: "done", seconds, reward_before: first, reward_after: last, run: run.path, adapter });
    return 0;
  }
  output.note(`In the end: ${examples.join("   ")}\n`);
  output.line(
    terminalPlot([{ name: "reward", points: rewards }], {
      width: Math.min(output.width, 72),
      height: 10,
      style: output.style.bind(output),
    }),
  );
  output.line(
    `\nRight answers ${last < first ? "fell" : "rose"} from ${(first * 100).toFixed(0)} % to ${(last * 100).toFixed(0)} % in ${formatDuration(seconds)}. Try next:\n`,
  );
  output.line(`  npx tinklet sample "What is 27 + 38?" --chat --local --from ${run.path}`);
  output.line(`  npx tinklet plot ${run.path} --out reward.svg`);
  output.line("  npx tinklet train your-data.jsonl --local");
  return 0;
}
