/**
 * The event stream of a tenant's runs: new optimizer steps and changed runs as server-sent events, batched for a moment so that fast runs
 * send few events. Each batch of steps has an id, with which a reader resumes after a disconnect.
 */
import { RunProgress, StepsEvent, stringifyJson, type WatchRunsQuery } from "@tinklet/wire";
import { Refusal } from "../../queue/refusal.ts";
import { OpaqueIds } from "../../queue/request-id.ts";
import { getModel } from "../../store/tables/models.ts";
import { latestStepId, type StepRow, tenantStepsAfter } from "../../store/tables/steps.ts";
import type { Api, Call } from "../api.ts";
import { createEventStream } from "../event-stream.ts";
import { runProgress, stepColumns } from "./run-progress.ts";

/** Time for which changes are batched. */
const gatherMs = 250;
/** Steps that are sent to a reader that resumes; one that missed more gets `reset` and requests the runs again. */
const maxMissed = 5000;
/** Unread events after which the stream ends; the reader can resume from its last id. */
const maxUntaken = 256;

const eventText = (event: string, data: unknown, id?: string): string =>
  `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${stringifyJson(data)}\n\n`;

/**
 * Events: `steps` (a {@link StepsEvent}), `run` (a {@link RunProgress}), `ready`, `reset` (missed steps are not available: request the runs
 * again).
 *
 * @throws {@link Refusal} 429 when the tenant has too many streams open.
 */
export function watchRuns(api: Api, call: Call, { after, follow }: WatchRunsQuery): Response {
  const { tenant } = call.caller;
  const { sql } = api.store.db;
  const { steps: feed } = api.queue.context;
  if (feed.watching(tenant) >= api.limits.watchersPerTenant) {
    const problem = `This key has ${api.limits.watchersPerTenant} event streams open, which is the limit. Close one.`;
    throw new Refusal(429, "too_many_streams", problem, { retryAfterSeconds: 5 });
  }
  // Ids are encrypted with the store's secret: those of another store, such as an in-memory one before a restart, are not readable.
  const ids = new OpaqueIds(api.store.secret, "step");
  const idOf = (step: number) => ids.make(step, tenant);
  let rows: StepRow[] = [];
  const changed = new Set<string>();
  let stopTimer: (() => void) | undefined;

  const stream = createEventStream({
    clock: api.clock,
    heartbeatMs: api.limits.chatHeartbeatMs,
    heartbeat: () => ": alive\n\n",
    onGone: () => {},
    onOver: () => {
      stop();
      stopTimer?.();
    },
  });
  const sendSteps = (found: readonly StepRow[]) => {
    const byRun = new Map<string, StepRow[]>();
    for (const row of found) {
      const of = byRun.get(row.model_id);
      if (of === undefined) byRun.set(row.model_id, [row]);
      else of.push(row);
    }
    // Only the last event has an id, so a reader that is disconnected between two of them receives both again.
    const last = found.at(-1)?.id;
    for (const [at, [runId, of]] of [...byRun].entries()) {
      const id = last !== undefined && at === byRun.size - 1 ? idOf(last) : undefined;
      stream.send(eventText("steps", StepsEvent.encode({ runId, steps: stepColumns(of) }), id));
    }
  };
  const flush = () => {
    stopTimer = undefined;
    const found = rows;
    rows = [];
    sendSteps(found);
    for (const runId of changed) {
      const row = getModel(sql, runId);
      if (row?.tenant === tenant) stream.send(eventText("run", RunProgress.encode(runProgress(api, row))));
    }
    changed.clear();
    if (stream.untaken > maxUntaken) stream.end();
  };
  const flushSoon = () => {
    stopTimer ??= api.clock.timer(gatherMs, flush);
  };
  const stop = feed.watch(tenant, {
    onStep: (row) => {
      rows.push(row);
      flushSoon();
    },
    onRun: (runId) => {
      changed.add(runId);
      flushSoon();
    },
    onClose: () => {
      if (stopTimer !== undefined) {
        stopTimer();
        flush();
      }
      stream.end();
    },
  });

  const from = call.request.headers.get("last-event-id") ?? after;
  const now = latestStepId(sql);
  const known = from === undefined ? undefined : ids.read(from, tenant);
  const missed =
    from === undefined ? [] : known === undefined ? undefined : tenantStepsAfter(sql, tenant, known, maxMissed + 1);
  const isLost = missed === undefined || missed.length > maxMissed;
  stream.send(
    isLost ? eventText("reset", {}, idOf(now)) : eventText("ready", {}, from === undefined ? idOf(now) : undefined),
  );
  if (!isLost) sendSteps(missed);
  if (!follow) stream.end();
  return stream.response();
}
