/**
 * The state of the page: session, runs, their curves, and the connection of the event stream. The stream updates runs and curves; a hidden
 * tab disconnects from it and reloads the state when it becomes visible.
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

/** `undefined` until the server has responded. */
export const session = signal<Session | undefined>(undefined);
/** Reason why there is no session. */
export const sessionProblem = signal<string | undefined>(undefined);
export const runs = signal<readonly RunProgress[] | undefined>(undefined);
export const runCount = signal(0);
export const folders = signal<readonly RunFolder[]>([]);
export const runsProblem = signal<string | undefined>(undefined);
export const curves = signal<ReadonlyMap<string, RunStepsResponse>>(new Map());
export const isConnected = signal(false);
/** The current time, updated every few seconds, from which ages are computed. */
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

/** The message of a failed call. After a 401 it reloads the session, which shows the sign-in form. */
export function problemText(error: unknown): string {
  if (error instanceof CallError && error.status === 401) void loadSession();
  return error instanceof Error ? error.message : String(error);
}

/** Maximum runs in the page, which bounds its memory. */
export const maxRuns = 1000;
/** The server's limit. */
const runsPerPage = 200;

async function listRuns(): Promise<{ readonly runs: readonly RunProgress[]; readonly totalCount: number }> {
  const found = new Map<string, RunProgress>();
  for (let offset = 0; ; offset += runsPerPage) {
    const { runs: list, cursor } = await call("listRunProgress", { limit: runsPerPage, offset });
    // A run that was used meanwhile moves to the front, and shifts the others to the next page.
    for (const run of list) if (!found.has(run.runId)) found.set(run.runId, run);
    const isLast = list.length < runsPerPage || offset + runsPerPage >= Math.min(maxRuns, cursor.totalCount);
    if (isLast) return { runs: [...found.values()], totalCount: cursor.totalCount };
  }
}

/** Minimum time between two loads of the folders. */
const foldersEveryMs = 5000;
let foldersTimer: ReturnType<typeof setTimeout> | undefined;

/** Reloads the folders soon: a step of a run may have changed one of them. */
function reloadFolders(): void {
  if (session.value?.has_folders !== true || foldersTimer !== undefined) return;
  foldersTimer = setTimeout(() => {
    foldersTimer = undefined;
    if (source === undefined) return;
    call("listRunFolders", {}).then(
      ({ folders: found }) => {
        if (source !== undefined) folders.value = found;
      },
      () => {}, // the connection reports it
    );
  }, foldersEveryMs);
}

async function loadRuns(): Promise<void> {
  try {
    const [list, found] = await Promise.all([
      listRuns(),
      session.value?.has_folders === true ? call("listRunFolders", {}) : { folders: [] },
    ]);
    batch(() => {
      runs.value = list.runs;
      runCount.value = list.totalCount;
      folders.value = found.folders;
      runsProblem.value = undefined;
    });
  } catch (error) {
    runsProblem.value = problemText(error);
  }
}

/** Runs whose curves are displayed; other curves are dropped to bound the memory of the page. */
const watched = new Set<string>();

/** Loads a run's curve and updates it until the returned function is called. */
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
  reloadFolders();
}

/** Reloads the displayed runs, because events sent while disconnected are lost. */
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
    // Reconnect with our own back-off: the browser's EventSource stops permanently if a starting server rejects it.
    opened.close();
    if (source !== opened) return;
    isConnected.value = false;
    if (runs.value === undefined) void loadRuns(); // loads the list or sets the error message
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

/** Subscribes to the event stream while the page is visible. */
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
    // The next user to sign in must not see this user's runs.
    batch(() => {
      isConnected.value = false;
      runs.value = undefined;
      folders.value = [];
      curves.value = new Map();
    });
  };
}
