/**
 * What the hosted service is known to refuse and this server does not have to: with `strict` such a call is refused here too, without it works and is
 * logged once. Each rule names where it is publicly known from; what is only guessed at is no rule.
 */
import type { Operation } from "@tinklet/wire";
import type { Log } from "../../log.ts";
import { Refusal } from "../../queue/refusal.ts";

/** A rule of the hosted service. */
export interface HostedRule {
  readonly name: string;
  readonly operations: readonly Operation[];
  /** The status that it is refused with. */
  readonly status: 400 | 410;
  /** What is wrong with a call's body or query, in the service's terms; undefined when nothing is. */
  readonly broken: (call: Readonly<Record<string, unknown>>) => string | undefined;
  /** What to do instead. */
  readonly instead: string;
  readonly source: string;
}

const hour = 3600;
const longestBillingDays = 14;

/** Why a window of time is none that the service bills by; undefined for a good one, and for what the handler refuses anyway. */
function windowProblem({ startingOn, endingBefore }: Readonly<Record<string, unknown>>): string | undefined {
  const [from, to] = [startingOn, endingBefore].map((time) => new Date(time as string | Date).getTime() / 1000);
  if (from === undefined || to === undefined || Number.isNaN(from + to)) return undefined;
  if (from % hour !== 0 || to % hour !== 0) return "starting_on and ending_before must be full hours in UTC.";
  const days = (to - from) / (24 * hour);
  if (days > longestBillingDays)
    return `ending_before is ${days} days after starting_on; at most ${longestBillingDays} are allowed.`;
  return undefined;
}

export const hostedRules: readonly HostedRule[] = [
  {
    name: "load_weights_first",
    operations: ["loadWeights"],
    status: 400,
    broken: ({ modelId, seqId }) =>
      modelId !== undefined && typeof seqId === "number" && seqId > 1
        ? `LoadWeights is not permitted with seq_id ${seqId}: it must be a model's first request.`
        : undefined,
    instead: "Create a model from the checkpoint.",
    source: "github.com/NovaSky-AI/SkyRL/pull/2071, tried against the service; tinker 0.36 deprecates load_state",
  },
  {
    name: "ttl_at_least_an_hour",
    operations: ["saveWeights", "saveWeightsForSampler", "saveWeightsExternal", "copyWeights", "setCheckpointTtl"],
    status: 400,
    broken: ({ ttlSeconds }) =>
      typeof ttlSeconds === "number" && ttlSeconds < hour
        ? `ttl_seconds: ${ttlSeconds} is not between 1 hour (${hour}) and 10 years.`
        : undefined,
    instead: `Give at least ${hour}, or delete the checkpoint.`,
    source: "tinker 0.36.0 on PyPI: RestClient.set_checkpoint_ttl_from_tinker_path, TrainingClient.save_state",
  },
  {
    name: "billing_window",
    operations: ["getBillingUsage"],
    status: 400,
    broken: windowProblem,
    instead: "Ask for full hours, two weeks at a time.",
    source: "tinker 0.36.0 on PyPI: AdminClient.get_billing_usage, BillingUsageRequest",
  },
  {
    name: "archive_retired",
    operations: ["getCheckpointArchiveUrl"],
    status: 410,
    broken: () => "Checkpoints are no longer handed out as one archive.",
    instead: "Export with save_weights_external and fetch the files of external_weights_urls.",
    source: "tinker 0.34.0 on PyPI deprecates it (the server may already reject it), 0.36.0 has it no more",
  },
];

export interface HostedCheck {
  /** @param call - its body or its query. @throws {@link Refusal} in strict mode, for one that the hosted service is known to refuse. */
  check(operation: Operation, call: unknown): void;
}

export function hostedCheck(strict: boolean, log: Log): HostedCheck {
  const told = new Set<string>();
  return {
    check: (operation, call) => {
      for (const { name, operations, status, broken, instead, source } of hostedRules) {
        const problem = operations.includes(operation) ? broken((call ?? {}) as Record<string, unknown>) : undefined;
        if (problem === undefined) continue;
        if (strict) throw new Refusal(status, "hosted_refuses", `${problem} ${instead} (strict: ${source})`);
        if (told.has(name)) continue;
        told.add(name);
        log.warn("hosted.refuses", { operation, problem, meaning: "the hosted service refuses this", instead, source });
      }
    },
  };
}
