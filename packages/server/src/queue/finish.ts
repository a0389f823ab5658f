/**
 * Ends a request, for both runners: logs a server error, stores the result with its effects and its usage in one transaction, and then
 * answers the polls that wait for it.
 */
import { omitUndefined } from "@tinklet/wire/options";
import type { Sql } from "../store/database.ts";
import { type Failure, failureBytes, finishRequest } from "../store/tables/requests.ts";
import { addUsage } from "../store/tables/usage.ts";
import { timingOf } from "./futures.ts";
import { failureOf, type Job, markOwned, type QueueContext, targetOf, untilStored } from "./job.ts";
import type { Outcome } from "./outcome.ts";

/** The outcome of running a request, or its error. */
export type Result = { readonly ok: true; readonly value: Outcome } | { readonly ok: false; readonly error: unknown };

/** How a request ended. Times in milliseconds since the epoch. */
export interface Ending {
  readonly result: Result;
  readonly baseModel: string;
  readonly startedAt: number;
  readonly finishedAt: number;
  /** Its index among the executed requests of its model. */
  readonly position?: number;
  /** Keep the payload, because the request runs again when its model is restored. */
  readonly keepPayload?: boolean;
  /** What the runner stores in the same transaction. */
  readonly alsoStore?: (sql: Sql, failure: Failure | undefined) => void;
}

/** Stores the ending of a request and answers its polls. Rejects when it cannot be stored; while the disk is full it retries. */
export async function finish(context: QueueContext, job: Job, ending: Ending): Promise<void> {
  const { result, startedAt, finishedAt, position } = ending;
  const outcome = result.ok ? result.value : undefined;
  const failure = result.ok ? undefined : failureOf(result.error);
  if (!result.ok && failure?.category !== "user") {
    context.log.error("request.failed", { request: job.id, kind: job.kind, error: String(result.error) });
  }
  const state = result.ok ? "done" : "failed";
  const type = outcome?.type ?? "json";
  if (job.resolvedParams.stream) context.feeds.end(job.id);
  const work = (sql: Sql): Uint8Array => {
    const { id, tenant, sessionId } = job;
    const body = failure === undefined ? outcome!.body : failureBytes(failure);
    const result = outcome?.effects?.(sql, position ?? 0) ?? body;
    const account = { tenant, sessionId, baseModel: ending.baseModel, now: finishedAt };
    if (outcome?.usage !== undefined) addUsage(sql, account, outcome.usage);
    ending.alsoStore?.(sql, failure);
    finishRequest(sql, {
      id,
      state,
      result,
      resultType: type,
      keepPayload: ending.keepPayload === true && failure === undefined,
      position: position ?? null,
      startedAt,
      finishedAt,
    });
    return result;
  };
  const body = await untilStored(context, job, () => context.store.db.write(work));
  if (outcome?.filesId !== undefined) void markOwned(context, outcome.filesId);
  if (outcome?.usage !== undefined) context.onUsed(job.tenant, outcome.usage);
  context.payloads.delete(job.id);
  context.onFinished(job, state);
  const target = targetOf(job);
  if (target !== undefined) context.completions.end(target, { id: job.id, state, bytes: body.byteLength });
  const cachedTokens = outcome?.usage?.sampling_prefill_cached;
  const timing = { ...timingOf(job.acceptedAt, startedAt, finishedAt), ...omitUndefined({ cachedTokens }) };
  context.futures.settle(job.id, { tenant: job.tenant, body, type, timing });
}
