/** Defects of a run that are known before its first step: in its data, and in its learning rate. */
import type { PreparedData } from "../data/prepare.ts";
import type { Finding } from "./diagnosis.ts";

/** Shares of the examples from which on a finding is reported. */
const [cutShare, repeatedShare] = [0.05, 0.2];
/** Factors of the usual learning rate. */
const [highRate, lowRate] = [8, 1 / 50];

const percent = (count: number, of: number) => `${Math.round((100 * count) / of)} %`;

/** Findings about prepared data, at step 0. */
export function dataFindings({
  summary,
  test,
  repeated,
  leaked,
}: Pick<PreparedData, "summary" | "test" | "repeated" | "leaked">): Finding[] {
  const { examples, truncated, dropped } = summary;
  const findings: Finding[] = [];
  const lost = Math.max(truncated, dropped);
  if (lost > cutShare * examples)
    findings.push({
      code: "examples_cut",
      step: 0,
      message: `${truncated} of ${examples} examples (${percent(truncated, examples)}) are cut at the maximum length; ${dropped} have nothing left to learn.`,
      remedy:
        "Split long examples, or raise the maximum length (--max-length, maxLength) if the model's context allows it.",
    });
  if (repeated > repeatedShare * examples)
    findings.push({
      code: "examples_repeated",
      step: 0,
      message: `${repeated} of ${examples} examples (${percent(repeated, examples)}) repeat an earlier one, which the model then learns by heart.`,
      remedy: "Remove repeated examples, or train for fewer epochs.",
    });
  if (leaked > 0)
    findings.push({
      code: "test_leaked",
      step: 0,
      message: `${leaked} of ${test.length} test examples are in the training data too, so the test loss is too low.`,
      remedy: "Remove them from one of the two files.",
    });
  return findings;
}

/** A finding if the learning rate is far from the usual one for the model. */
export function learningRateFinding(rate: number, usual: number | undefined): Finding | undefined {
  if (usual === undefined || (rate <= highRate * usual && rate >= lowRate * usual)) return undefined;
  const [high, factor] = [rate > usual, rate / usual];
  return {
    code: "learning_rate",
    step: 0,
    message: `The learning rate ${Number(rate.toPrecision(3))} is ${high ? `${Math.round(factor)} times` : `1/${Math.round(1 / factor)} of`} the usual one for this model, ${Number(usual.toPrecision(3))}.`,
    remedy: high ? "Expect it to diverge, and choose a lower one." : "Expect slow progress, and choose a higher one.",
  };
}
