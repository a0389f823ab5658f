/** Status, curve and events of a run for the API, from its row, its session, its last steps and the queue. */

import type { RunEvent, RunProgress, RunStatus, StepColumns } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { liveCheckpoints, type ModelRow, tinkerPath } from "../../store/tables/models.ts";
import { failedRequests } from "../../store/tables/requests.ts";
import { getSession } from "../../store/tables/sessions.ts";
import { startTimes } from "../../store/tables/starts.ts";
import { lastStep, lossOutline, type StepRow } from "../../store/tables/steps.ts";
import type { Api } from "../api.ts";
import { textValues } from "../views.ts";

/** Number of values of a sparkline. */
const outlineValues = 48;
/** Failed requests per run in its events. */
const shownFailures = 50;

export function runProgress(api: Api, row: ModelRow): RunProgress {
  const { sql } = api.store.db;
  const session = getSession(sql, row.session_id);
  const last = lastStep(sql, row.id);
  const now = api.queue.modelState(row);
  const isOver = row.state === "unloaded" || (session?.finished_at ?? null) !== null;
  const status: RunStatus =
    row.state === "failed"
      ? "failed"
      : now.running > 0
        ? "training"
        : now.waiting > 0
          ? "waiting"
          : isOver
            ? "done"
            : "idle";
  const reason = status === "failed" ? (row.error ?? undefined) : status === "idle" ? undefined : now.reason;
  return {
    runId: row.id,
    name: row.name ?? row.id,
    sessionId: row.session_id,
    status,
    ...omitUndefined({ reason }),
    baseModel: row.base_model,
    loraRank: (JSON.parse(row.lora) as { rank: number }).rank,
    ...omitUndefined({ displayName: session?.display_name ?? undefined }),
    tags: session === undefined ? [] : (JSON.parse(session.tags) as string[]),
    userMetadata: { ...textValues(session?.user_metadata ?? null), ...textValues(row.user_metadata) },
    createdAt: new Date(row.created_at),
    lastRequestAt: new Date(row.last_request_at),
    steps: last?.step ?? 0,
    tokens: last?.tokens ?? 0,
    ...omitUndefined({ loss: last?.loss ?? undefined, gradientNorm: last?.gradient_norm ?? undefined }),
    sparkline: lossOutline(sql, row.id, outlineValues),
  };
}

export function stepColumns(rows: readonly StepRow[]): StepColumns {
  return {
    id: rows.map(({ step }) => step), // not the row id, which counts the steps of all tenants
    step: rows.map(({ step }) => step),
    time: rows.map(({ at }) => at),
    tokens: rows.map(({ tokens }) => tokens),
    loss: rows.map(({ loss }) => loss),
    gradientNorm: rows.map((row) => row.gradient_norm),
    learningRate: rows.map((row) => row.learning_rate),
    queueMs: rows.map((row) => row.queue_ms),
    computeMs: rows.map((row) => row.compute_ms),
  };
}

/** Events of a run: its creation, saved checkpoints, failed and refused requests, and restarts of the server. */
export function runEvents(api: Api, row: ModelRow): RunEvent[] {
  const { sql } = api.store.db;
  const saved = liveCheckpoints(sql, row.id, api.clock.now()).map((checkpoint) => ({
    time: new Date(checkpoint.created_at),
    kind: "saved",
    detail: tinkerPath(checkpoint),
  }));
  const failed = failedRequests(sql, row.id, shownFailures).map(({ kind, refused, finishedAt, error }) => ({
    time: new Date(finishedAt),
    kind: refused ? "refused" : "failed",
    detail: `${kind}: ${error}`,
  }));
  const created = { time: new Date(row.created_at), kind: "created", detail: row.base_model };
  // Restarts between the run's requests, and the first one after them; later ones do not concern an unused run.
  const starts = startTimes(sql).filter((at) => at > row.created_at);
  const lastUse = Math.max(row.last_request_at, ...failed.map(({ time }) => time.getTime()));
  const restarted = starts
    .filter((_, i) => i === 0 || starts[i - 1]! <= lastUse)
    .map((at) => ({ time: new Date(at), kind: "restarted", detail: "The server was restarted." }));
  return [...saved, ...failed, ...restarted, created].sort((a, b) => b.time.getTime() - a.time.getTime());
}
