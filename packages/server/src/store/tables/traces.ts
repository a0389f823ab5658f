/** Rows of `traces`, `trace_spans`, `trace_ratings` and `trace_totals`: GenAI spans by trace, with a summary of each trace for lists. */
import type { Sql, SqlValue } from "../database.ts";

/** A span to store. */
export interface NewSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | null;
  readonly kind: string;
  readonly name: string;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly service: string | null;
  readonly model: string | null;
  readonly error: string | null;
  /** Names of the tools that were called. */
  readonly tools: readonly string[];
  /** The beginning of the last user message, and of the reply. */
  readonly prompt: string | null;
  readonly answer: string | null;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly body: string;
  /** Bytes that the row counts for. */
  readonly bytes: number;
}

export interface TraceRow {
  readonly id: number;
  readonly tenant: string;
  readonly trace_id: string;
  readonly started_at: number;
  readonly ended_at: number;
  readonly spans: number;
  readonly bytes: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly service: string | null;
  readonly models: string;
  readonly tools: string;
  readonly error: string | null;
  readonly prompt: string | null;
  readonly answer: string | null;
  readonly answer_at: number | null;
  readonly rating: number | null;
  readonly is_rated: number;
  readonly seen_at: number;
}

export interface TraceSpanRow {
  readonly span_id: string;
  readonly parent_id: string | null;
  readonly kind: string;
  readonly name: string;
  readonly model: string | null;
  readonly error: string | null;
  readonly started_at: number;
  readonly ended_at: number;
  readonly body: string;
  readonly bytes: number;
}

export interface TraceRatingRow {
  readonly span_id: string;
  readonly rating: number | null;
  readonly comment: string | null;
  readonly answer: string | null;
  readonly prompt_key: string;
  readonly rated_at: number;
}

export interface SpanBounds {
  readonly count: number;
  readonly bytes: number;
}

/** What happened to the spans of an export. */
export interface AddedSpans {
  readonly stored: number;
  /** Spans beyond the bounds of their trace. */
  readonly rejected: number;
  /** Traces deleted to stay within the tenant's bounds. */
  readonly deletedTraces: number;
}

/** Names that a list of a trace has at most; filters do not find further ones. */
const mostNames = 50;

const namesOf = (list: string): string[] => list.split("\n").filter((name) => name !== "");

/** Adds names to a list; a line break is the separator. */
function withNames(list: string, names: readonly (string | null)[]): string {
  const known = new Set(namesOf(list));
  for (const name of names) if (name !== null && known.size < mostNames) known.add(name.replaceAll("\n", " "));
  return known.size === 0 ? "" : `\n${[...known].join("\n")}\n`;
}

/** Stores spans; one that is stored already is ignored. Deletes the tenant's oldest traces beyond its bounds. */
export function addSpans(
  sql: Sql,
  spans: readonly NewSpan[],
  options: {
    readonly tenant: string;
    readonly now: number;
    readonly perTrace: SpanBounds;
    readonly perTenant: SpanBounds;
  },
): AddedSpans {
  const { tenant, now, perTrace, perTenant } = options;
  let stored = 0;
  let rejected = 0;
  let bytes = 0;
  const byTrace = new Map<string, NewSpan[]>();
  for (const span of spans) {
    const list = byTrace.get(span.traceId);
    if (list === undefined) byTrace.set(span.traceId, [span]);
    else list.push(span);
  }
  for (const [traceId, list] of byTrace) {
    const found = getTrace(sql, tenant, traceId);
    const row: { -readonly [K in keyof TraceRow]: TraceRow[K] } = found ?? emptyTrace(tenant, traceId);
    const id = found?.id ?? insertTrace(sql, tenant, traceId, now);
    for (const span of list) {
      if (isStored(sql, id, span.spanId)) continue;
      if (row.spans >= perTrace.count || row.bytes + span.bytes > perTrace.bytes) {
        rejected++;
        continue;
      }
      insertSpan(sql, id, span);
      addToSummary(row, span);
      stored++;
      bytes += span.bytes;
    }
    if (row.spans === 0) sql.run("DELETE FROM traces WHERE id = ?", id);
    else updateTrace(sql, { ...row, id, seen_at: now });
  }
  if (stored > 0) addToTotals(sql, tenant, stored, bytes);
  return { stored, rejected, deletedTraces: deleteBeyond(sql, tenant, perTenant) };
}

const emptyTrace = (tenant: string, traceId: string): TraceRow => ({
  id: 0,
  tenant,
  trace_id: traceId,
  started_at: Number.MAX_SAFE_INTEGER,
  ended_at: 0,
  spans: 0,
  bytes: 0,
  input_tokens: 0,
  output_tokens: 0,
  service: null,
  models: "",
  tools: "",
  error: null,
  prompt: null,
  answer: null,
  answer_at: null,
  rating: null,
  is_rated: 0,
  seen_at: 0,
});

function addToSummary(row: { -readonly [K in keyof TraceRow]: TraceRow[K] }, span: NewSpan): void {
  // The prompt of the first call, and the answer of the last one.
  const isFirst = span.startedAt < row.started_at;
  row.started_at = Math.min(row.started_at, span.startedAt);
  row.ended_at = Math.max(row.ended_at, span.endedAt);
  row.spans++;
  row.bytes += span.bytes;
  if (span.kind === "model") {
    row.input_tokens += span.inputTokens;
    row.output_tokens += span.outputTokens;
  }
  row.service ??= span.service;
  row.models = withNames(row.models, [span.model]);
  row.tools = withNames(row.tools, span.tools);
  row.error ??= span.error;
  if (span.prompt !== null && (row.prompt === null || isFirst)) row.prompt = span.prompt;
  if (span.answer !== null && (row.answer_at === null || span.endedAt >= row.answer_at)) {
    row.answer = span.answer;
    row.answer_at = span.endedAt;
  }
}

const isStored = (sql: Sql, trace: number, spanId: string): boolean =>
  sql.get("SELECT 1 FROM trace_spans WHERE trace = ? AND span_id = ?", trace, spanId) !== undefined;

const insertTrace = (sql: Sql, tenant: string, traceId: string, now: number): number =>
  sql.run(
    `INSERT INTO traces (tenant, trace_id, started_at, ended_at, spans, bytes, input_tokens, output_tokens, models, tools, seen_at)
     VALUES (?, ?, 0, 0, 0, 0, 0, 0, '', '', ?)`,
    tenant,
    traceId,
    now,
  ).lastInsertRowid;

function updateTrace(sql: Sql, row: TraceRow): void {
  sql.run(
    `UPDATE traces SET started_at = ?, ended_at = ?, spans = ?, bytes = ?, input_tokens = ?, output_tokens = ?, service = ?, models = ?,
       tools = ?, error = ?, prompt = ?, answer = ?, answer_at = ?, seen_at = ? WHERE id = ?`,
    row.started_at,
    row.ended_at,
    row.spans,
    row.bytes,
    row.input_tokens,
    row.output_tokens,
    row.service,
    row.models,
    row.tools,
    row.error,
    row.prompt,
    row.answer,
    row.answer_at,
    row.seen_at,
    row.id,
  );
}

function insertSpan(sql: Sql, trace: number, span: NewSpan): void {
  sql.run(
    `INSERT INTO trace_spans (trace, span_id, parent_id, kind, name, model, error, started_at, ended_at, body, bytes)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    trace,
    span.spanId,
    span.parentId,
    span.kind,
    span.name,
    span.model,
    span.error,
    span.startedAt,
    span.endedAt,
    span.body,
    span.bytes,
  );
}

const addToTotals = (sql: Sql, tenant: string, spans: number, bytes: number): void =>
  void sql.run(
    `INSERT INTO trace_totals (tenant, spans, bytes) VALUES (?, ?, ?)
     ON CONFLICT (tenant) DO UPDATE SET spans = spans + excluded.spans, bytes = bytes + excluded.bytes`,
    tenant,
    spans,
    bytes,
  );

/** What a tenant stores. */
export const traceTotals = (sql: Sql, tenant: string): SpanBounds => {
  const row = sql.get<{ spans: number; bytes: number }>(
    "SELECT spans, bytes FROM trace_totals WHERE tenant = ?",
    tenant,
  );
  return { count: row?.spans ?? 0, bytes: row?.bytes ?? 0 };
};

function deleteBeyond(sql: Sql, tenant: string, bounds: SpanBounds): number {
  let deleted = 0;
  for (;;) {
    const { count, bytes } = traceTotals(sql, tenant);
    if (count <= bounds.count && bytes <= bounds.bytes) return deleted;
    const oldest = sql.get<TraceRow>(
      "SELECT * FROM traces WHERE tenant = ? ORDER BY is_rated, seen_at, id LIMIT 1",
      tenant,
    );
    if (oldest === undefined) return deleted;
    deleteTrace(sql, oldest);
    deleted++;
  }
}

export const getTrace = (sql: Sql, tenant: string, traceId: string): TraceRow | undefined =>
  sql.get<TraceRow>("SELECT * FROM traces WHERE tenant = ? AND trace_id = ?", tenant, traceId);

/** The spans of a trace, by their start. */
export const spansOf = (sql: Sql, trace: number): TraceSpanRow[] =>
  sql.all<TraceSpanRow>("SELECT * FROM trace_spans WHERE trace = ? ORDER BY started_at, ended_at, rowid", trace);

export const getSpan = (sql: Sql, trace: number, spanId: string): TraceSpanRow | undefined =>
  sql.get<TraceSpanRow>("SELECT * FROM trace_spans WHERE trace = ? AND span_id = ?", trace, spanId);

export const ratingsOf = (sql: Sql, trace: number): TraceRatingRow[] =>
  sql.all<TraceRatingRow>("SELECT * FROM trace_ratings WHERE trace = ? ORDER BY rated_at, span_id", trace);

export function deleteTrace(
  sql: Sql,
  { id, tenant, spans, bytes }: Pick<TraceRow, "id" | "tenant" | "spans" | "bytes">,
): void {
  sql.run("DELETE FROM trace_ratings WHERE trace = ?", id);
  sql.run("DELETE FROM trace_spans WHERE trace = ?", id);
  sql.run("DELETE FROM traces WHERE id = ?", id);
  addToTotals(sql, tenant, -spans, -bytes);
}

/** A number of traces, and their size. */
export interface TracesUse {
  readonly count: number;
  readonly bytes: number;
}

/** The traces of all tenants, or those without a new span since a time. */
export function tracesUse(sql: Sql, seenBefore = Number.MAX_SAFE_INTEGER): TracesUse {
  const row = sql.get<TracesUse>(
    "SELECT COUNT(*) AS count, COALESCE(SUM(bytes), 0) AS bytes FROM traces WHERE seen_at < ?",
    seenBefore,
  );
  return { count: row?.count ?? 0, bytes: row?.bytes ?? 0 };
}

/** Deletes up to `limit` traces of all tenants without a new span since a time. */
export function expireTraces(sql: Sql, seenBefore: number, limit: number): TracesUse {
  const rows = sql.all<TraceRow>("SELECT * FROM traces WHERE seen_at < ? ORDER BY seen_at LIMIT ?", seenBefore, limit);
  for (const row of rows) deleteTrace(sql, row);
  return { count: rows.length, bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0) };
}

/** Bytes of a comment and an answer. */
export const ratingBytes = ({ comment, answer }: Pick<TraceRatingRow, "comment" | "answer">): number =>
  Buffer.byteLength(comment ?? "") + Buffer.byteLength(answer ?? "");

/** Why a rating was not stored. */
export type RatingRefusal = "trace" | "tenant";

/**
 * Stores a rating; without rating, comment and answer, deletes it. Its bytes count as bytes of the trace.
 *
 * @returns the limit that it would exceed; then nothing is stored
 */
export function rateSpan(
  sql: Sql,
  trace: TraceRow,
  row: TraceRatingRow,
  bounds: { readonly perTrace: SpanBounds; readonly perTenant: SpanBounds },
): RatingRefusal | undefined {
  const { span_id: spanId, rating, comment, answer } = row;
  const before = sql.get<{ bytes: number }>(
    `SELECT LENGTH(CAST(COALESCE(comment, '') AS BLOB)) + LENGTH(CAST(COALESCE(answer, '') AS BLOB)) AS bytes
     FROM trace_ratings WHERE trace = ? AND span_id = ?`,
    trace.id,
    spanId,
  );
  const added = ratingBytes(row) - (before?.bytes ?? 0);
  if (added > 0 && trace.bytes + added > bounds.perTrace.bytes) return "trace";
  if (added > 0 && traceTotals(sql, trace.tenant).bytes + added > bounds.perTenant.bytes) return "tenant";
  if (rating === null && comment === null && answer === null) {
    sql.run("DELETE FROM trace_ratings WHERE trace = ? AND span_id = ?", trace.id, spanId);
  } else {
    sql.run(
      `INSERT OR REPLACE INTO trace_ratings (trace, span_id, tenant, rating, comment, answer, prompt_key, rated_at)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      trace.id,
      spanId,
      trace.tenant,
      rating,
      comment,
      answer,
      row.prompt_key,
      row.rated_at,
    );
  }
  const last = sql.get<Pick<TraceRatingRow, "rating">>(
    "SELECT rating FROM trace_ratings WHERE trace = ? ORDER BY rated_at DESC, span_id DESC LIMIT 1",
    trace.id,
  );
  sql.run(
    "UPDATE traces SET rating = ?, is_rated = ?, bytes = bytes + ? WHERE id = ?",
    last?.rating ?? null,
    last === undefined ? 0 : 1,
    added,
    trace.id,
  );
  addToTotals(sql, trace.tenant, 0, added);
  return undefined;
}

/** Filters of a list; an absent one does not restrict it. */
export interface TraceFilter {
  readonly since?: number | undefined;
  readonly until?: number | undefined;
  readonly model?: string | undefined;
  readonly tool?: string | undefined;
  readonly hasError?: boolean | undefined;
  readonly rating?: "up" | "down" | "rated" | "unrated" | undefined;
  /** Only these traces. */
  readonly traceIds?: readonly string[] | undefined;
}

/** Where a list continues: after this trace. */
export interface TraceCursor {
  readonly startedAt: number;
  readonly id: number;
}

/** A tenant's traces, newest first. */
export function listTraces(
  sql: Sql,
  tenant: string,
  {
    filter,
    after,
    limit,
  }: { readonly filter: TraceFilter; readonly after: TraceCursor | undefined; readonly limit: number },
): TraceRow[] {
  const { text, values } = condition(filter);
  const { startedAt, id } = after ?? { startedAt: Number.MAX_SAFE_INTEGER, id: 0 };
  return sql.all<TraceRow>(
    `SELECT * FROM traces WHERE tenant = ? AND (started_at, id) < (?, ?) ${text} ORDER BY started_at DESC, id DESC LIMIT ?`,
    tenant,
    startedAt,
    id,
    ...values,
    limit,
  );
}

function condition({ since, until, model, tool, hasError, rating, traceIds }: TraceFilter): {
  readonly text: string;
  readonly values: readonly SqlValue[];
} {
  const parts: string[] = [];
  const values: SqlValue[] = [];
  const add = (text: string, ...more: readonly SqlValue[]) => {
    parts.push(` AND ${text}`);
    values.push(...more);
  };
  if (since !== undefined) add("started_at >= ?", since);
  if (until !== undefined) add("started_at < ?", until);
  if (model !== undefined) add("INSTR(models, char(10) || ? || char(10)) > 0", model);
  if (tool !== undefined) add("INSTR(tools, char(10) || ? || char(10)) > 0", tool);
  if (hasError !== undefined) add(`error IS ${hasError ? "NOT " : ""}NULL`);
  if (rating === "up" || rating === "down") add("rating = ?", rating === "up" ? 1 : -1);
  else if (rating !== undefined) add("is_rated = ?", rating === "rated" ? 1 : 0);
  if (traceIds !== undefined) add("trace_id IN (SELECT value FROM json_each(?))", JSON.stringify(traceIds));
  return { text: parts.join(""), values };
}

/** Models and tools of a list's row. */
export const listedNames = namesOf;

/** A rated answer with its call. */
export interface RatedRow extends TraceRatingRow {
  readonly trace_id: string;
  readonly body: string;
}

/**
 * Rated answers by their prompts: of the next `prompts` prompts after a key, at most `limit` answers each. The filter selects traces; it is
 * applied to each answer.
 */
export function ratedAnswers(
  sql: Sql,
  tenant: string,
  options: { readonly filter: TraceFilter; readonly after: string; readonly prompts: number; readonly bytes: number },
): { readonly rows: RatedRow[]; readonly next: string | undefined } {
  const { filter, after, prompts, bytes } = options;
  const { text, values } = condition(filter);
  const keys = sql.all<{ prompt_key: string }>(
    "SELECT DISTINCT prompt_key FROM trace_ratings WHERE tenant = ? AND prompt_key > ? ORDER BY prompt_key LIMIT ?",
    tenant,
    after,
    prompts,
  );
  const rows: RatedRow[] = [];
  let size = 0;
  for (const { prompt_key: key } of keys) {
    const found = sql.all<RatedRow & { readonly bytes: number }>(
      `SELECT r.*, t.trace_id, s.body, s.bytes FROM trace_ratings r JOIN trace_spans s ON s.trace = r.trace AND s.span_id = r.span_id
         JOIN (SELECT * FROM traces WHERE tenant = ? ${text}) t ON t.id = r.trace
       WHERE r.tenant = ? AND r.prompt_key = ? ORDER BY r.rated_at, t.trace_id, r.span_id LIMIT ?`,
      tenant,
      ...values,
      tenant,
      key,
      mostAnswers,
    );
    rows.push(...found);
    size += found.reduce((sum, row) => sum + row.bytes + ratingBytes(row), 0);
    if (size >= bytes) return { rows, next: key };
  }
  return { rows, next: keys.length < prompts ? undefined : keys.at(-1)?.prompt_key };
}

/** Rated answers to one prompt that pairs are made of. */
const mostAnswers = 64;
