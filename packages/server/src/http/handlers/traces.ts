/** Handlers of stored traces: list and search, one trace as conversations, ratings, deletion, and training data. */
import type {
  ExportTracesResponse,
  GetTraceResponse,
  TraceConversation,
  TraceFilters,
  TraceRating,
  TraceSummary,
} from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { Refusal } from "../../queue/refusal.ts";
import {
  deleteTrace,
  getSpan,
  getTrace,
  listedNames,
  listTraces,
  ratedAnswers,
  rateSpan,
  ratingBytes,
  ratingsOf,
  spansOf,
  type TraceCursor,
  type TraceFilter,
  type TraceRatingRow,
  type TraceRow,
  type TraceSpanRow,
} from "../../store/tables/traces.ts";
import type { Conversation } from "../../traces/conversations.ts";
import type { Api, Handlers } from "../api.ts";

type TraceOperation = "listTraces" | "getTrace" | "rateTrace" | "deleteTrace" | "exportTraces";

/** Traces per page. */
const mostTraces = 200;
/** Bytes of spans that one request reads, and traces that a search looks at. */
const pageBytes = 8 * 1024 * 1024;
const searchBytes = 32 * 1024 * 1024;
const searchTraces = 5000;
/** Prompts whose answers one page of pairs is made of. */
const promptsPerPage = 100;
/** UTF-16 code units of a filter, a comment and an edited answer. */
const longestFilter = 1000;
const longestComment = 10_000;
const longestAnswer = 256 * 1024;

export function traceHandlers(api: Api): Pick<Handlers, TraceOperation> {
  const { store, clock, traceThreads, limits } = api;
  const { sql } = store.db;

  const ownTrace = (tenant: string, traceId: string): TraceRow => {
    const row = getTrace(sql, tenant, traceId.toLowerCase());
    if (row !== undefined) return row;
    throw new Refusal(404, "unknown_trace", `There is no trace ${JSON.stringify(traceId.slice(0, 200))} of this key.`);
  };

  /** Traces that a text and an expression match, from a bounded part of the list. */
  const selectTraces = async (tenant: string, options: Selection): Promise<Selected> => {
    const { filters, limit, traceIds } = options;
    const filter = filterOf(filters, traceIds);
    const { text, regex } = checkedSearch(filters);
    const isSearch = text !== undefined || regex !== undefined;
    const selected: TraceRow[] = [];
    let after = options.after;
    let readTraces = 0;
    let readBytes = 0;
    for (;;) {
      const candidates = listTraces(sql, tenant, {
        filter,
        after,
        limit: Math.min(limit - selected.length, mostTraces) + 1,
      });
      const batch = candidates.slice(
        0,
        withinBytes(candidates, Math.min(limit - selected.length, mostTraces), pageBytes),
      );
      const isEnd = batch.length === candidates.length;
      const last = batch.at(-1);
      if (last !== undefined) after = { startedAt: last.started_at, id: last.id };
      readTraces += batch.length;
      readBytes += batch.reduce((sum, { bytes }) => sum + bytes, 0);
      if (!isSearch) selected.push(...batch);
      else if (batch.length > 0) {
        const traces = batch.map(({ id }) => ({ id, bodies: spansOf(sql, id).map(({ body }) => body) }));
        const found = new Set(await traceThreads.run(tenant, "searchTraces", { traces, text, regex }));
        selected.push(...batch.filter(({ id }) => found.has(id)));
      }
      if (isEnd) return { rows: selected, next: undefined };
      const isFull = selected.length >= limit || readTraces >= searchTraces || readBytes >= searchBytes;
      if (!isSearch || isFull) return { rows: selected, next: after };
    }
  };

  return {
    listTraces: async ({ query }, { caller }) => {
      const limit = Math.min(Math.max(query.limit, 1), mostTraces);
      const { rows, next } = await selectTraces(caller.tenant, {
        filters: query,
        limit,
        after: cursorOf(query.cursor),
        traceIds: undefined,
      });
      return { traces: rows.map(summaryOf), ...omitUndefined({ nextCursor: next && cursorText(next) }) };
    },

    getTrace: async ({ params }, { caller }): Promise<GetTraceResponse> => {
      const row = ownTrace(caller.tenant, params.traceId);
      const spans = spansOf(sql, row.id);
      const conversations = await traceThreads.run(caller.tenant, "conversations", spans);
      const ratings = new Map(ratingsOf(sql, row.id).map((rating) => [rating.span_id, rating]));
      return {
        trace: summaryOf(row),
        conversations: conversations.map((one) => conversationOf(one, ratings)),
        spans: spans.map(spanOf),
      };
    },

    rateTrace: async ({ params, body }, { caller }) => {
      checkLength("comment", body.comment, longestComment);
      checkLength("answer", body.answer, longestAnswer);
      const { id } = ownTrace(caller.tenant, params.traceId);
      const span =
        body.spanId === undefined ? lastAnswer(spansOf(sql, id)) : getSpan(sql, id, body.spanId.toLowerCase());
      const spanId = body.spanId ?? span?.span_id ?? "";
      const prompt =
        span?.kind === "model"
          ? await traceThreads.run(caller.tenant, "promptOf", span.body)
          : { hasAnswer: false, key: "" };
      if (span === undefined || !prompt.hasAnswer) {
        const problem = `span_id: the trace has no answer ${JSON.stringify(spanId.slice(0, 100))}; the span_id of a turn names one.`;
        throw new Refusal(422, "unknown_answer", problem);
      }
      const row: TraceRatingRow = {
        span_id: span.span_id,
        rating: body.rating === null ? null : body.rating === "up" ? 1 : -1,
        comment: body.comment,
        answer: body.answer,
        prompt_key: prompt.key,
        rated_at: clock.now(),
      };
      const bytes = ratingBytes(row);
      if (bytes > 0) api.queue.checkDisk(caller.tenant, bytes);
      const bounds = { perTrace: limits.spansPerTrace, perTenant: limits.spansPerTenant };
      const refusal = await store.db.write((tx) => {
        const trace = getTrace(tx, caller.tenant, params.traceId.toLowerCase());
        return trace === undefined ? "deleted" : rateSpan(tx, trace, row, bounds);
      });
      if (refusal === "deleted")
        ownTrace(caller.tenant, params.traceId); // it was deleted in the meantime
      else if (refusal !== undefined) {
        const what = refusal === "trace" ? "One trace" : "All traces of one key";
        const { bytes: limit } = refusal === "trace" ? bounds.perTrace : bounds.perTenant;
        const problem = `${what} with ratings must have at most ${limit} bytes; this rating has ${bytes}. Shorten it, or delete traces.`;
        throw new Refusal(413, "trace_too_large", problem);
      }
      const isDeleted = row.rating === null && row.comment === null && row.answer === null;
      return { spanId: row.span_id, ...(isDeleted ? {} : { rating: ratingOf(row) }) };
    },

    deleteTrace: async ({ params }, { caller }) => {
      ownTrace(caller.tenant, params.traceId);
      await store.db.write((tx) => {
        const row = getTrace(tx, caller.tenant, params.traceId.toLowerCase());
        if (row !== undefined) deleteTrace(tx, row);
      });
      return undefined;
    },

    exportTraces: async ({ body }, { caller }): Promise<ExportTracesResponse> => {
      const { tenant } = caller;
      const { format, redact, cursor, traceIds } = body;
      if (traceIds !== undefined && traceIds.length > 1000)
        throw new Refusal(422, "invalid_request", `trace_ids: the limit is 1000 ids, got ${traceIds.length}`);
      if (format === "dpo") {
        if (body.text !== undefined || body.regex !== undefined) {
          const problem = "text and regex cannot select pairs, which are made of several traces. Use trace_ids.";
          throw new Refusal(422, "invalid_request", problem);
        }
        const { rows, next } = ratedAnswers(sql, tenant, {
          filter: filterOf(body, traceIds),
          after: cursor ?? "",
          prompts: promptsPerPage,
          bytes: pageBytes,
        });
        const data = await traceThreads.run(tenant, "preferencePairs", { rated: rows, redact });
        return { ...dataOf(data), ...omitUndefined({ nextCursor: next }) };
      }
      const { rows, next } = await selectTraces(tenant, {
        filters: body,
        limit: mostTraces,
        after: cursorOf(cursor),
        traceIds,
      });
      const data = await traceThreads.run(tenant, "trainingData", {
        format,
        redact,
        traces: rows.map(({ id, trace_id: traceId }) => ({
          traceId,
          spans: spansOf(sql, id),
          ratings: ratingsOf(sql, id),
        })),
      });
      return { ...dataOf(data), ...omitUndefined({ nextCursor: next && cursorText(next) }) };
    },
  };
}

interface Selection {
  readonly filters: TraceFilters;
  readonly limit: number;
  readonly after: TraceCursor | undefined;
  readonly traceIds: readonly string[] | undefined;
}

interface Selected {
  readonly rows: readonly TraceRow[];
  /** Where the list continues; absent at its end. */
  readonly next: TraceCursor | undefined;
}

/** Number of rows, at least one, that have at most `bytes` together. */
function withinBytes(rows: readonly TraceRow[], most: number, bytes: number): number {
  let sum = 0;
  for (const [at, row] of rows.slice(0, most).entries()) {
    sum += row.bytes;
    if (sum > bytes && at > 0) return at;
  }
  return Math.min(rows.length, most);
}

const filterOf = (filters: TraceFilters, traceIds: readonly string[] | undefined): TraceFilter => ({
  since: filters.since?.getTime(),
  until: filters.until?.getTime(),
  model: filters.model,
  tool: filters.tool,
  hasError: filters.error === undefined ? undefined : filters.error === "true",
  rating: filters.rating,
  traceIds: traceIds?.map((id) => id.toLowerCase()),
});

function checkedSearch({ text, regex }: TraceFilters): Pick<TraceFilters, "text" | "regex"> {
  checkLength("text", text ?? null, longestFilter);
  checkLength("regex", regex ?? null, longestFilter);
  return omitUndefined({ text, regex });
}

function checkLength(field: string, value: string | null, most: number): void {
  if (value === null || value.length <= most) return;
  throw new Refusal(422, "invalid_request", `${field}: the limit is ${most} characters, got ${value.length}`);
}

const cursorText = ({ startedAt, id }: TraceCursor): string => `${startedAt}.${id}`;

function cursorOf(text: string | undefined): TraceCursor | undefined {
  if (text === undefined || text === "") return undefined;
  const [, startedAt, id] = /^(\d{1,16})\.(\d{1,15})$/.exec(text) ?? [];
  if (id === undefined) {
    const problem = `cursor: must be the next_cursor of a page, got ${JSON.stringify(text.slice(0, 100))}`;
    throw new Refusal(422, "invalid_request", problem);
  }
  return { startedAt: Number(startedAt), id: Number(id) };
}

const lastAnswer = (spans: readonly TraceSpanRow[]): TraceSpanRow | undefined =>
  spans.findLast(({ kind, body }) => kind === "model" && body.includes('"output":'));

const ratingValue = (rating: number | null): "up" | "down" | null =>
  rating === null ? null : rating > 0 ? "up" : "down";

const ratingOf = (row: TraceRatingRow): TraceRating => ({
  rating: ratingValue(row.rating),
  comment: row.comment,
  answer: row.answer,
  ratedAt: new Date(row.rated_at),
});

function summaryOf(row: TraceRow): TraceSummary {
  const { service, error, prompt, answer } = row;
  const rating = ratingValue(row.rating);
  return {
    traceId: row.trace_id,
    startedAt: new Date(row.started_at),
    endedAt: new Date(row.ended_at),
    spans: row.spans,
    bytes: row.bytes,
    inputTokens: row.input_tokens,
    outputTokens: row.output_tokens,
    models: listedNames(row.models),
    tools: listedNames(row.tools),
    rated: row.is_rated === 1,
    ...(service === null ? {} : { service }),
    ...(error === null ? {} : { error }),
    ...(prompt === null ? {} : { prompt }),
    ...(answer === null ? {} : { answer }),
    ...(rating === null ? {} : { rating }),
  };
}

const spanOf = (row: TraceSpanRow): GetTraceResponse["spans"][number] => ({
  spanId: row.span_id,
  kind: row.kind as "model" | "tool" | "agent",
  name: row.name,
  startedAt: new Date(row.started_at),
  endedAt: new Date(row.ended_at),
  bytes: row.bytes,
  ...(row.parent_id === null ? {} : { parentId: row.parent_id }),
  ...(row.model === null ? {} : { model: row.model }),
  ...(row.error === null ? {} : { error: row.error }),
});

const conversationOf = (one: Conversation, ratings: ReadonlyMap<string, TraceRatingRow>): TraceConversation => ({
  conversationId: one.id,
  spanIds: one.spanIds,
  tools: one.tools as unknown as TraceConversation["tools"],
  incomplete: one.isIncomplete,
  ...(one.model === null ? {} : { model: one.model }),
  ...(one.error === null ? {} : { error: one.error }),
  turns: one.turns.map(({ message, spanId, hasTokens }) => {
    const rating = spanId === undefined ? undefined : ratings.get(spanId);
    return {
      message: message as unknown as TraceConversation["turns"][number]["message"],
      ...omitUndefined({ spanId, hasTokens }),
      ...(rating === undefined ? {} : { rating: ratingOf(rating) }),
    };
  }),
});

const dataOf = (data: { lines: readonly object[]; skipped: Readonly<Record<string, number>>; redacted: number }) => ({
  lines: data.lines as unknown as ExportTracesResponse["lines"],
  skipped: data.skipped,
  redacted: data.redacted,
});
