/**
 * Calls that the hosted service refuses although this server could answer them. With `strict` they are refused here too; without it they
 * succeed and each rule is logged once. Each rule names its public source; there are no rules for guesses.
 */
import type { Operation } from "@tinklet/wire";
import type { Log } from "../../log.ts";
import { Refusal } from "../../queue/refusal.ts";

/** A rule of the hosted service. */
export interface HostedRule {
  readonly name: string;
  readonly operations: readonly Operation[];
  /** Status of the refusal. */
  readonly status: 400 | 410;
  /** The problem with a call's body or query, in the service's terms; `undefined` if there is no problem. */
  readonly broken: (call: Readonly<Record<string, unknown>>) => string | undefined;
  /** Whether our own clients make such calls only to servers that answer them; their calls are not logged. @defaultValue false */
  readonly isOptional?: boolean;
  /** What to do instead. */
  readonly instead: string;
  readonly source: string;
}

const hour = 3600;
const longestBillingDays = 14;

/** Why the service refuses a billing window; `undefined` for a valid one, and for times that the handler refuses. */
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
    instead: `Set at least ${hour}, or delete the checkpoint.`,
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
    isOptional: true, // they export when the archive is refused
    broken: () => "Checkpoints can no longer be downloaded as one archive.",
    instead: "Export with save_weights_external and download the files of external_weights_urls.",
    source: "tinker 0.34.0 on PyPI deprecates it (the server may already reject it), 0.36.0 removes it",
  },
];

export interface HostedCheck {
  /** @param call - the decoded body or query. @param userAgent - of the request. @throws {@link Refusal} in strict mode, if the hosted service refuses the call. */
  check(operation: Operation, call: unknown, userAgent?: string | null): void;
}

export function hostedCheck(strict: boolean, log: Log): HostedCheck {
  const logged = new Set<string>();
  return {
    check: (operation, call, userAgent) => {
      const isOwnClient = userAgent?.startsWith("tinklet/") === true;
      for (const { name, operations, status, broken, isOptional, instead, source } of hostedRules) {
        const problem = operations.includes(operation) ? broken((call ?? {}) as Record<string, unknown>) : undefined;
        if (problem === undefined) continue;
        if (strict) throw new Refusal(status, "hosted_refuses", `${problem} ${instead} (strict: ${source})`);
        if (logged.has(name) || (isOptional === true && isOwnClient)) continue;
        logged.add(name);
        log.warn("hosted_rule.violated", {
          operation,
          problem,
          meaning: "the hosted service refuses this",
          instead,
          source,
        });
      }
    },
  };
}
