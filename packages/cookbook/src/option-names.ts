/** Option names of each loop, for rejecting unknown ones. A list that lacks a name does not compile. */
import type { OptionNames } from "@tinklet/wire/options";
import type { PolicyGradientOptions, Problem } from "./loops/policy-gradient.ts";
import type { SupervisedOptions } from "./loops/supervised.ts";
import type { PolicyGradientRunOptions, RunOptions, SupervisedRunOptions } from "./runs/open-run.ts";

/** Options that both loops have. */
const loop = {
  trainer: true,
  run: true,
  learningRate: true,
  schedule: true,
  adam: true,
  saveEvery: true,
  resumeFrom: true,
  signal: true,
} as const;

/** Of `trainSupervised`. */
export const supervisedNames: OptionNames<SupervisedOptions> = {
  ...loop,
  dataset: true,
  epochs: true,
  maxSteps: true,
  warmupSteps: true,
  testData: true,
  keepBest: true,
  forget: true,
  evalEvery: true,
  ttlSeconds: true,
  beforeStep: true,
  stopWhen: true,
};

/** Of `trainPolicyGradient`. */
export const policyGradientNames: OptionNames<PolicyGradientOptions<Problem>> = {
  ...loop,
  problems: true,
  reward: true,
  steps: true,
  groupSize: true,
  groupsPerStep: true,
  samplingParams: true,
  seed: true,
};

/** Of `openRun`. */
export const runNames: OptionNames<RunOptions> = {
  service: true,
  folder: true,
  name: true,
  baseModel: true,
  rank: true,
  seed: true,
  from: true,
  recovery: true,
  signal: true,
};

/** Of `runSupervised`. */
export const supervisedRunNames: OptionNames<SupervisedRunOptions> = {
  ...runNames,
  ...without(supervisedNames, ["trainer", "run", "resumeFrom", "dataset", "testData", "forget"]),
  data: true,
  batchSize: true,
  settings: true,
};

/** Of `runPolicyGradient`. */
export const policyGradientRunNames: OptionNames<PolicyGradientRunOptions<Problem>> = {
  ...runNames,
  ...without(policyGradientNames, ["trainer", "run", "resumeFrom"]),
  settings: true,
};

export function without<T extends object, K extends keyof T>(names: T, left: readonly K[]): Omit<T, K> {
  return Object.fromEntries(Object.entries(names).filter(([name]) => !left.includes(name as K))) as Omit<T, K>;
}

/** Those options of a run that are its loop's. */
export function only<T extends object>(options: object, names: OptionNames<T>): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(names, name))) as Partial<T>;
}
