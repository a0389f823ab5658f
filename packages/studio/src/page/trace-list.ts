/**
 * The list of traces, which is loaded page by page as the user scrolls. It is kept while a trace is open, so that going back shows the
 * same rows and the trace has a next one.
 */
import { signal } from "@preact/signals";
import type { TraceFilters, TraceSummary } from "@tinklet/wire";
import { call } from "./api.ts";
import { placeUrl } from "./router.ts";
import { problemText } from "./store.ts";
import { plainText } from "./text.ts";

/** The server's limit of a page. */
const pageSize = 200;
/** Maximum traces in the page, which bounds its memory. */
export const maxTraces = 20_000;

export const filterNames = ["text", "model", "tool", "error", "rating"] as const;
export type TraceFilterName = (typeof filterNames)[number];
/** Filters as the URL has them. */
export type ListFilters = Readonly<Partial<Record<TraceFilterName, string>>>;

export interface TraceList {
  readonly filters: ListFilters;
  readonly rows: readonly TraceSummary[];
  /** Where the next page starts; absent at the end of the list. */
  readonly cursor: string | undefined;
  readonly isLoading: boolean;
  readonly problem: string | undefined;
}

export const traceList = signal<TraceList | undefined>(undefined);

const allowed: Partial<Record<TraceFilterName, readonly string[]>> = {
  error: ["true", "false"],
  rating: ["up", "down", "rated", "unrated"],
};

/** The filters of a URL. Values that the server would refuse are left out. */
export function filtersOf(query: URLSearchParams): ListFilters {
  return Object.fromEntries(
    filterNames.flatMap((name) => {
      const value = plainText(query.get(name) ?? "").slice(0, 1000);
      return value === "" || allowed[name]?.includes(value) === false ? [] : [[name, value]];
    }),
  );
}

/** The URL of the list with these filters. */
export const tracesUrl = (filters: ListFilters = {}): string => placeUrl(["traces"], filters);

/** Identifies the list that is loaded; answers for an earlier one are dropped. */
let loads = 0;

/** Loads the first page. */
export function loadTraces(filters: ListFilters): Promise<void> {
  loads++;
  traceList.value = { filters, rows: [], cursor: undefined, isLoading: true, problem: undefined };
  return loadPage(undefined);
}

/** Loads the page after the last row; does nothing at the end of the list, or while a page is loading. */
export async function loadMoreTraces(): Promise<void> {
  const list = traceList.value;
  if (list === undefined || list.isLoading || list.cursor === undefined) return;
  traceList.value = { ...list, isLoading: true, problem: undefined };
  await loadPage(list.cursor);
}

async function loadPage(cursor: string | undefined): Promise<void> {
  const load = loads;
  const { filters } = traceList.value!;
  try {
    const page = await call("listTraces", {
      ...(filters as TraceFilters),
      limit: pageSize,
      ...(cursor === undefined ? {} : { cursor }),
    });
    if (load !== loads) return;
    // A trace that got an earlier span in the meantime is on two pages.
    const known = new Set(traceList.value!.rows.map(({ traceId }) => traceId));
    const rows = [...traceList.value!.rows, ...page.traces.filter(({ traceId }) => !known.has(traceId))];
    const isFull = rows.length >= maxTraces;
    traceList.value = {
      ...{ filters, rows, isLoading: false, problem: undefined },
      cursor: isFull ? undefined : page.nextCursor,
    };
  } catch (error) {
    if (load === loads) traceList.value = { ...traceList.value!, isLoading: false, problem: problemText(error) };
  }
}

/** Changes one row, or removes it. */
export function changeTrace(traceId: string, change: (row: TraceSummary) => TraceSummary | undefined): void {
  const list = traceList.value;
  if (list === undefined) return;
  const rows = list.rows.flatMap((row) => (row.traceId === traceId ? (change(row) ?? []) : row));
  traceList.value = { ...list, rows };
}

/** Forgets the list: the next user to sign in must not see this user's traces. */
export function forgetTraces(): void {
  loads++;
  traceList.value = undefined;
}
