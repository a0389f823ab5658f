/** The quickstart that learns from a reward: sums of two numbers, right or wrong, and nobody shows how. */
import { join } from "node:path";
import type { Answer, Problem } from "@tinklet/cookbook";
import type { Tokenizer } from "../tokenizer/index.ts";
import { bundledModel, type Context } from "./context.ts";
import { formatDuration } from "./format.ts";
import { terminalPlot } from "./plot-terminal.ts";
import { localService, type QuickstartOptions, saveAdapter } from "./quickstart-examples.ts";
import { StepLine } from "./step-line.ts";

/** A sum and its prompt. */
interface Sum extends Problem {
  readonly a: number;
  readonly b: number;
}

const settings = { rank: 16, learningRate: 2e-3, groupSize: 16, groupsPerStep: 16, steps: 30 };
const samplingParams = { maxTokens: 8 };

/** The whole reward: 1 when the first number in the answer is the sum, else 0. */
const reward =
  (tokenizer: Tokenizer) =>
  ({ tokens }: Answer, { a, b }: Sum): number => {
    const said = /\d+/.exec(tokenizer.decode(tokens))?.[0];
    return Number(said) === a + b ? 1 : 0;
  };

export async function quickstartByReward(options: QuickstartOptions, context: Context): Promise<number> {
  const { output, signal } = context;
  const { RunFolder, seededRandom, trainPolicyGradient } = await import("@tinklet/cookbook");
  const { loadTokenizer } = await import("../tokenizer/index.ts");
  const startMs = performance.now();
  const { seed } = options;
  const tokenizer = await loadTokenizer(options.model);
  const random = seededRandom(seed + 1);
  const twoDigits = () => 10 + Math.floor(random() * 90);
  const problems = Array.from({ length: 2000 }, (): Sum => {
    const [a, b] = [twoDigits(), twoDigits()];
    const asked = [{ role: "user", content: `What is ${a} + ${b}?` }];
    return { a, b, prompt: tokenizer.applyChatTemplate(asked, { addGenerationPrompt: true }) };
  });
  const service = await localService(options.model, context);
  const trainer = await service.createLoraTrainingClient({ baseModel: bundledModel, rank: settings.rank, seed });
  const run = await RunFolder.open(options.out ?? join("runs", "quickstart-rl"));
  await run.clear();
  await run.writeConfig({ quickstart: "reward", model_name: bundledModel, seed, ...settings });
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
    const { metrics, step, groups } = event;
    const mean = metrics["env/all/reward/total"] ?? 0;
    rewards.push([step, mean]);
    output.event({ type: "step", ...metrics });
    const tokens = groups.reduce(
      (sum, { problem, answers }) =>
        sum + answers.reduce((n, { tokens: own }) => n + own.length + problem.prompt.length, 0),
      0,
    );
    output.progress(line.text(step, tokens, { reward: mean.toFixed(3) }), { always: step === steps - 1 });
    const shown = groups.slice(0, 3).map(({ problem: { a, b }, answers: [first] }) => {
      const text = tokenizer.decode(first?.tokens ?? [], { skipSpecialTokens: true }).trim();
      return `${a} + ${b} = ${text} ${first?.reward === 1 ? "✓" : "✗"}`;
    });
    if (step === 0) output.note(`At first: ${shown.join("   ")}`);
    examples = shown;
  }
  signal.throwIfAborted();
  const seconds = (performance.now() - startMs) / 1000;
  const adapter = await saveAdapter(trainer, service, run.path, context);
  const mean = (part: readonly [number, number][]) => part.reduce((sum, [, value]) => sum + value, 0) / part.length;
  // Single steps are noisy: the ends are compared by the mean of three.
  const [first, last] = [mean(rewards.slice(0, 3)), mean(rewards.slice(-3))];
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
    `\nRight answers rose from ${(first * 100).toFixed(0)} % to ${(last * 100).toFixed(0)} % in ${formatDuration(seconds)}. Try next:\n`,
  );
  output.line(`  npx tinklet sample "What is 27 + 38?" --chat --local --from ${run.path}`);
  output.line(`  npx tinklet plot ${run.path} --out reward.svg`);
  output.line("  npx tinklet train your-data.jsonl --local");
  return 0;
}
