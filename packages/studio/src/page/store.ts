/**
 * What the page knows: who is signed in, the runs and their curves, and whether the stream of events is connected. Runs and curves grow by
 * the stream; a hidden tab lets go of it and catches up when it is seen again.
 */
import { batch, signal } from "@preact/signals";
import { type RunFolder, RunProgress, type RunStepsResponse, StepsEvent } from "@tinklet/wire";
import { CallError, call, send } from "./api.ts";
import { joinColumns } from "./series.ts";

export interface Session {
  readonly tenant: string | null;
  readonly needs_key: boolean;
  readonly has_models: boolean;
  readonly has_folders: boolean;
}

/** `undefined` until the server has said. */
export const session = signal<Session | undefined>(undefined);
/** Why there is no session. */
export const sessionProblem = signal<string | undefined>(undefined);
export const runs = signal<readonly RunProgress[] | undefined>(undefined);
export const runCount = signal(0);
export const folders = signal<readonly RunFolder[]>([]);
export const runsProblem = signal<string | undefined>(undefined);
export const curves = signal<ReadonlyMap<string, RunStepsResponse>>(new Map());
export const isConnected = signal(false);
/** The time, every few seconds: ages are told by it. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 5000);

export async function loadSession(): Promise<void> {
  try {
    session.value = (await (await send("/studio/session")).json()) as Session;
    sessionProblem.value = undefined;
  } catch (error) {
    sessionProblem.value = (error as Error).message;
  }
}

/** An error of a call; who is no longer signed in is asked to. */
export function problemText(error: unknown): string {
  if (error instanceof CallError && error.status === 401) void loadSession();
  return error instanceof Error ? error.message : String(error);
}

async function loadRuns(): Promise<void> {
  try {
    const [list, found] = await Promise.all([
      call("listRunProgress", { limit: 200 }),
      session.value?.has_folders === true ? call("listRunFolders", {}) : { folders: [] },
    ]);
    batch(() => {
      runs.value = list.runs;
      runCount.value = list.cursor.totalCount;
      folders.value = found.folders;
      runsProblem.value = undefined;
    });
  } catch (error) {
    runsProblem.value = problemText(error);
  }
}

/** Curves that are being looked at; others are dropped, so that a page that stays open does not grow. */
const watched = new Set<string>();

/** Loads a run's curve and keeps it growing. @returns what ends that. */
export function watchRun(runId: string, onProblem: (problem: string) => void): () => void {
  watched.add(runId);
  call("getRunSteps", { trainingRunId: runId }).then(
    (found) => {
      if (watched.has(runId)) curves.value = new Map(curves.value).set(runId, found);
    },
    (error: unknown) => onProblem(problemText(error)),
  );
  return () => {
    watched.delete(runId);
    const kept = new Map(curves.value);
    kept.delete(runId);
    curves.value = kept;
  };
}

function onSteps({ runId, steps }: StepsEvent): void {
  const curve = curves.value.get(runId);
  if (curve === undefined) return;
  curves.value = new Map(curves.value).set(runId, { ...curve, steps: joinColumns(curve.steps, steps) });
}

function onRun(run: RunProgress): void {
  const others = (runs.value ?? []).filter(({ runId }) => runId !== run.runId);
  const isNew = runs.value !== undefined && others.length === runs.value.length;
  batch(() => {
    runs.value = [run, ...others].sort((a, b) => b.lastRequestAt.getTime() - a.lastRequestAt.getTime());
    if (isNew) runCount.value++;
    const curve = curves.value.get(run.runId);
    if (curve !== undefined) curves.value = new Map(curves.value).set(run.runId, { ...curve, run });
  });
}

/** Asks again for what is being looked at: what was missed cannot be told. */
async function refresh(): Promise<void> {
  await loadRuns();
  for (const runId of watched) {
    const found = await call("getRunSteps", { trainingRunId: runId }).catch(() => undefined);
    if (found !== undefined && watched.has(runId)) curves.value = new Map(curves.value).set(runId, found);
  }
}

let source: EventSource | undefined;
let lastId = "";
let retry: ReturnType<typeof setTimeout> | undefined;
let waitMs = 500;

function connect(): void {
  clearTimeout(retry);
  source?.close();
  const opened = new EventSource(
    `/api/v1/tinklet/events${lastId === "" ? "" : `?after=${encodeURIComponent(lastId)}`}`,
  );
  source = opened;
  const on = (kind: string, act: (data: unknown) => void) =>
    opened.addEventListener(kind, (event) => {
      if (event.lastEventId !== "") lastId = event.lastEventId;
      act(JSON.parse(event.data as string));
    });
  on("steps", (data) => onSteps(StepsEvent.decode(data)));
  on("run", (data) => onRun(RunProgress.decode(data)));
  const begin = () => {
    isConnected.value = true;
    waitMs = 500;
    void refresh();
  };
  on("ready", begin);
  on("reset", begin);
  opened.onerror = () => {
    // Our own waiting, and not the browser's, which gives up for good when a starting server refuses it.
    opened.close();
    if (source !== opened) return;
    isConnected.value = false;
    if (runs.value === undefined) void loadRuns(); // the list, or why there is none
    retry = setTimeout(() => void reconnect(), waitMs);
    waitMs = Math.min(10_000, waitMs * 2);
  };
}

async function reconnect(): Promise<void> {
  await loadSession();
  if (sessionProblem.value === undefined && session.value?.tenant !== null) connect();
  else if (sessionProblem.value !== undefined) {
    retry = setTimeout(() => void reconnect(), waitMs);
    waitMs = Math.min(10_000, waitMs * 2);
  }
}

/** Follows the stream while the page is seen. */
export function followEvents(): () => void {
  const seen = () => {
    if (document.hidden) {
      clearTimeout(retry);
      source?.close();
      source = undefined;
    } else if (source === undefined) connect();
  };
  document.addEventListener("visibilitychange", seen);
  seen();
  return () => {
    document.removeEventListener("visibilitychange", seen);
    clearTimeout(retry);
    source?.close();
    source = undefined;
    lastId = "";
    // Whoever signs in next must not see what this one saw.
    batch(() => {
      isConnected.value = false;
      runs.value = undefined;
      folders.value = [];
      curves.value = new Map();
    });
  };
}
