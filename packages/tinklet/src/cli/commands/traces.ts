/** `traces list`, `show`, `rate`, `export` and `delete`: traces that programs exported to a Tinklet server, and training data from them. */
import { createWriteStream } from "node:fs";
import { finished } from "node:stream/promises";
import { writeFailure } from "@tinklet/sdk/files";
import type { JsonValue, TraceConversation, TraceFilters, TraceSummary } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { parseTime } from "../age.ts";
import type { Command, OptionSpec } from "../command.ts";
import type { Context } from "../context.ts";
import { replaceFile } from "../files.ts";
import { confirmed } from "../output/confirm.ts";
import { CliError } from "../output/explain.ts";
import { counted, formatTimestamp } from "../output/format.ts";
import { type Input, UsageError } from "../parse.ts";

/** Traces per request. */
const pageSize = 200;

const filterOptions: Readonly<Record<string, OptionSpec>> = {
  since: { type: "string", value: "TIME", about: "that started since: an age (12h, 7d, 4w) or a date" },
  until: { type: "string", value: "TIME", about: "that started before" },
  model: { type: "string", value: "NAME", about: "that called this model" },
  tool: { type: "string", value: "NAME", about: "that called this tool" },
  error: { type: "boolean", about: "with an error" },
  "no-error": { type: "boolean", about: "without an error" },
  rating: {
    type: "string",
    value: "KIND",
    choices: ["up", "down", "rated", "unrated"],
    about: "up, down, rated or unrated",
  },
  text: { type: "string", about: "with this text in a message or a call, in any case" },
  regex: { type: "string", about: "with a message or a call that this JavaScript expression matches" },
};

function filtersOf(input: Input): TraceFilters {
  if (input.flag("error") && input.flag("no-error")) throw new UsageError("--error goes without --no-error");
  const time = (name: string) => {
    const text = input.text(name);
    return text === undefined ? undefined : parseTime(name, text);
  };
  return omitUndefined({
    since: time("since"),
    until: time("until"),
    model: input.text("model"),
    tool: input.text("tool"),
    error: input.flag("error") ? ("true" as const) : input.flag("no-error") ? ("false" as const) : undefined,
    rating: input.text("rating") as TraceFilters["rating"],
    text: input.text("text"),
    regex: input.text("regex"),
  });
}

/** Calls a route; a server without it gets an explanation. */
async function called<T>(request: Promise<T>, hint: string): Promise<T> {
  try {
    return await request;
  } catch (cause) {
    const { status, message } = cause as { readonly status?: number; readonly message: string };
    if (status === 404 && /unknown_route|There is no (GET|POST|DELETE)/.test(message))
      throw new CliError("The server has no traces.", { cause, hint: "Only tinklet serve stores traces." });
    if (status === 404) throw new CliError(message, { cause, hint });
    throw cause;
  }
}

const listHint = "tinklet traces list shows the traces of this key.";

const summaryJson = (trace: TraceSummary): object => ({
  trace_id: trace.traceId,
  started_at: trace.startedAt.toISOString(),
  ended_at: trace.endedAt.toISOString(),
  spans: trace.spans,
  bytes: trace.bytes,
  input_tokens: trace.inputTokens,
  output_tokens: trace.outputTokens,
  service: trace.service,
  models: trace.models,
  tools: trace.tools,
  error: trace.error,
  prompt: trace.prompt,
  answer: trace.answer,
  rated: trace.rated,
  rating: trace.rating,
});

const short = (text: string | undefined, length = 40): string =>
  text === undefined ? "" : text.length <= length ? text : `${text.slice(0, length - 1)}…`;

const ratingText = ({ rated, rating }: TraceSummary): string => rating ?? (rated ? "edited" : "");

export const tracesList: Command = {
  usage: "traces list [--limit N] [filters]",
  about: "Lists traces that programs exported to the server (POST /v1/traces), newest first.",
  options: { limit: { type: "string", value: "N", about: "maximum number; 0 for all (default 20)" }, ...filterOptions },
  examples: ["traces list --local --since 7d --rating unrated", 'traces list --local --tool search --text "refund"'],
  async run(input, context) {
    const limit = input.integer("limit", 0) ?? 20;
    const filters = filtersOf(input);
    const { api } = await context.service();
    const { output, signal } = context;
    const traces: TraceSummary[] = [];
    let cursor: string | undefined;
    do {
      const wanted = limit === 0 ? pageSize : Math.min(pageSize, limit - traces.length);
      const page = await called(
        api.listTraces({ ...filters, limit: wanted, ...omitUndefined({ cursor }) }, { signal }),
        listHint,
      );
      traces.push(...page.traces);
      cursor = page.nextCursor;
      output.progress(`Fetching traces: ${traces.length}`);
    } while (cursor !== undefined && (limit === 0 || traces.length < limit));
    const more = cursor === undefined ? "" : " (more not shown, use --limit to see more)";
    output.result({
      title: traces.length === 0 ? "No traces found" : counted(traces.length, "trace") + more,
      columns: ["Trace ID", "Started", "Model", "Tools", "Prompt", "Answer", "Rating"],
      rows: traces.map((trace) => [
        trace.traceId,
        formatTimestamp(trace.startedAt),
        short(trace.models.join(","), 24),
        short(trace.tools.join(","), 24),
        short(trace.prompt),
        trace.error === undefined ? short(trace.answer) : `error: ${short(trace.error)}`,
        ratingText(trace),
      ]),
      json: { traces: traces.map(summaryJson) },
    });
  },
};

interface ShownMessage {
  readonly role?: string;
  readonly content?: string;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[];
}

export const tracesShow: Command = {
  usage: "traces show TRACE_ID",
  about:
    "Shows the conversations of a trace: messages, calls of tools and their results, ratings, and the span id of each answer, which\n" +
    "traces rate --span takes. Calls that continue the same conversation in different ways are shown as one conversation each.",
  arguments: ["TRACE_ID"],
  async run({ positionals: [traceId = ""] }, context) {
    const { output, signal } = context;
    const { api } = await context.service();
    const { trace, conversations, spans } = await called(api.getTrace({ traceId }, { signal }), listHint);
    if (output.isJson) {
      output.result({
        json: {
          trace: summaryJson(trace),
          conversations: conversations.map(conversationJson),
          spans: spans.map((span) => ({
            span_id: span.spanId,
            parent_id: span.parentId,
            kind: span.kind,
            name: span.name,
            model: span.model,
            error: span.error,
            started_at: span.startedAt.toISOString(),
            ended_at: span.endedAt.toISOString(),
          })),
        },
        columns: [],
        rows: [],
      });
      return;
    }
    for (const [at, conversation] of conversations.entries()) {
      const which = conversations.length === 1 ? "" : ` ${at + 1} of ${conversations.length}`;
      output.line(output.style(`Conversation${which}: ${conversation.model ?? "no model"}`, "bold"));
      for (const turn of conversation.turns) {
        const message = turn.message as ShownMessage;
        const from = turn.spanId === undefined ? "" : ` (span ${turn.spanId}${turn.hasTokens ? ", with tokens" : ""})`;
        output.line(output.style(`${message.role ?? "?"}${from}`, "cyan"));
        for (const line of (message.content ?? "").split("\n")) if (line !== "") output.line(`  ${line}`);
        for (const call of message.tool_calls ?? []) output.line(`  ${call.function.name}(${call.function.arguments})`);
        if (turn.rating !== undefined) {
          const { rating, comment, answer } = turn.rating;
          const parts = [
            rating ?? "edited",
            ...(comment === null ? [] : [comment]),
            ...(answer === null ? [] : [`edited: ${answer}`]),
          ];
          output.line(output.style(`  rated ${parts.join("; ")}`, "yellow"));
        }
      }
      if (conversation.error !== undefined) output.line(output.style(`error: ${conversation.error}`, "red"));
      output.line();
    }
    if (conversations.length === 0) output.line("The trace has no call of a model.");
  },
};

const conversationJson = (one: TraceConversation): object => ({
  conversation_id: one.conversationId,
  span_ids: one.spanIds,
  model: one.model,
  error: one.error,
  incomplete: one.incomplete,
  tools: one.tools,
  turns: one.turns.map(({ message, spanId, hasTokens, rating }) => ({
    message,
    span_id: spanId,
    has_tokens: hasTokens,
    rating: rating && { ...omitUndefined({ ...rating, ratedAt: undefined }), rated_at: rating.ratedAt.toISOString() },
  })),
});

export const tracesRate: Command = {
  usage: "traces rate TRACE_ID [--up | --down] [--comment TEXT] [--answer TEXT] [--span SPAN_ID]",
  about:
    "Rates an answer: thumb up or down, a comment, or the answer that would have been right. Replaces the rating that the answer\n" +
    "had; --clear removes it. Without --span it is the last answer of the trace.",
  arguments: ["TRACE_ID"],
  options: {
    up: { type: "boolean", about: "a good answer" },
    down: { type: "boolean", about: "a bad answer: traces export leaves its conversation out" },
    comment: { type: "string", value: "TEXT", about: "why" },
    answer: { type: "string", value: "TEXT", about: "the right answer, which training data has in its place" },
    span: { type: "string", value: "SPAN_ID", about: "the answer; traces show has the ids" },
    clear: { type: "boolean", about: "remove the rating" },
  },
  examples: ['traces rate 4bf92f3577b34da6a3ce929d0e0e4736 --down --answer "Refunds take 14 days." --local'],
  async run(input, context) {
    const [traceId = ""] = input.positionals;
    const [up, down, clear] = [input.flag("up"), input.flag("down"), input.flag("clear")];
    const [comment, answer] = [input.text("comment"), input.text("answer")];
    if (up && down) throw new UsageError("--up goes without --down");
    const isRating = up || down || comment !== undefined || answer !== undefined;
    if (clear === isRating)
      throw new UsageError(
        clear ? "--clear goes without a rating" : "give --up, --down, --comment, --answer or --clear",
      );
    const { output, signal } = context;
    const { api } = await context.service();
    const { spanId, rating } = await called(
      api.rateTrace(
        {
          traceId,
          rating: up ? "up" : down ? "down" : null,
          comment: comment ?? null,
          answer: answer ?? null,
          ...omitUndefined({ spanId: input.text("span") }),
        },
        { signal },
      ),
      listHint,
    );
    if (output.isJson)
      output.event({
        trace_id: traceId,
        span_id: spanId,
        rating: rating?.rating ?? null,
        comment: rating?.comment ?? null,
        answer: rating?.answer ?? null,
      });
    else
      output.line(
        rating === undefined ? `Removed the rating of ${spanId}` : `Rated ${spanId}: ${rating.rating ?? "edited"}`,
      );
  },
};

export const tracesExport: Command = {
  usage: "traces export [TRACE_ID ...] [--as sft|dpo|tokens] [--output FILE] [filters]",
  about:
    "Writes traces as JSONL for training. sft: conversations with tools, which train reads; edited answers replace the recorded\n" +
    "ones, and conversations rated down are left out. dpo: pairs of a preferred and another answer to the same prompt, from\n" +
    "ratings and edits. tokens: recorded token ids and log-probs, of models of @tinklet/ai. Secrets and e-mail addresses are\n" +
    "replaced ([EMAIL], [SECRET]), and recorded tokens of changed text are left out; read the file before you share it.",
  arguments: ["TRACE_ID..."],
  options: {
    as: { type: "string", value: "KIND", choices: ["sft", "dpo", "tokens"], about: "sft (default), dpo or tokens" },
    output: { type: "string", short: "o", value: "FILE", about: "default: the standard output" },
    "no-redact": { type: "boolean", about: "keep secrets and e-mail addresses" },
    ...filterOptions,
  },
  examples: ["traces export --rating up -o data.jsonl --local", "traces export --as dpo -o pairs.jsonl --local"],
  async run(input, context) {
    const { output } = context;
    const file = input.text("output");
    const lines = pagesOf(input, context);
    if (file === undefined) {
      const { count } = await writeLines(lines, (text) => output.data(text));
      report(context, count, lines.total, undefined);
      return;
    }
    const { count } = await replaceFile(file, async (scratch) => {
      const stream = createWriteStream(scratch, { mode: 0o600 }); // conversations of users
      const done = finished(stream).catch((cause: unknown) => Promise.reject(writeFailure(file, cause)));
      void done.catch(() => {}); // reported below
      const written = await writeLines(lines, (text) => {
        stream.write(text);
      });
      stream.end();
      await done;
      return written;
    });
    report(context, count, lines.total, file);
  },
};

interface ExportTotals {
  readonly skipped: Map<string, number>;
  redacted: number;
}

interface ExportPages extends AsyncIterable<readonly JsonValue[]> {
  readonly total: ExportTotals;
}

function pagesOf(input: Input, context: Context): ExportPages {
  const total: ExportTotals = { skipped: new Map(), redacted: 0 };
  const filters = filtersOf(input);
  const traceIds = input.positionals.length === 0 ? undefined : input.positionals;
  const format = (input.text("as") ?? "sft") as "sft" | "dpo" | "tokens";
  return {
    total,
    async *[Symbol.asyncIterator]() {
      const { api } = await context.service();
      let cursor: string | undefined;
      do {
        const page = await called(
          api.exportTraces(
            { ...filters, format, redact: !input.flag("no-redact"), ...omitUndefined({ traceIds, cursor }) },
            { signal: context.signal },
          ),
          listHint,
        );
        yield page.lines;
        for (const [reason, count] of Object.entries(page.skipped))
          total.skipped.set(reason, (total.skipped.get(reason) ?? 0) + count);
        total.redacted += page.redacted;
        cursor = page.nextCursor;
      } while (cursor !== undefined);
    },
  };
}

async function writeLines(pages: ExportPages, write: (text: string) => void): Promise<{ readonly count: number }> {
  let count = 0;
  for await (const lines of pages) {
    for (const line of lines) write(`${JSON.stringify(line)}\n`);
    count += lines.length;
  }
  return { count };
}

/** Says what was written. Without a file the lines are the output, so that nothing is added to them. */
function report(
  { output }: Context,
  count: number,
  { skipped, redacted }: ExportTotals,
  file: string | undefined,
): void {
  const reasons = [...skipped].map(([reason, number]) => `${number} (${reason})`);
  if (file !== undefined && output.isJson) {
    output.event({ file, lines: count, redacted_messages: redacted, skipped: Object.fromEntries(skipped) });
    return;
  }
  if (file !== undefined) output.line(`Wrote ${counted(count, "line")} to ${file}`);
  if (redacted > 0) output.note(`Replaced secrets or e-mail addresses in ${counted(redacted, "message")}.`);
  if (reasons.length > 0) output.note(`Left out: ${reasons.join(", ")}.`);
}

export const tracesDelete: Command = {
  usage: "traces delete TRACE_ID... [--yes]",
  about:
    "Permanently deletes traces and their ratings. Old traces are deleted by the server (tinklet serve prints when).",
  arguments: ["TRACE_ID", "MORE..."],
  options: { yes: { type: "boolean", short: "y", about: "do not ask" } },
  async run(input, context) {
    const { output, signal } = context;
    const { api } = await context.service();
    const ids = [...new Set(input.positionals)];
    for (const traceId of ids) await called(api.getTrace({ traceId }, { signal }), listHint);
    if (!input.flag("yes") && !(await confirmed("trace(s)", ids, context))) {
      if (output.isJson) output.event({ deleted: [] });
      else output.line("Deletion cancelled.");
      return;
    }
    for (const traceId of ids) await called(api.deleteTrace({ traceId }, { signal }), listHint);
    if (output.isJson) output.event({ deleted: ids });
    else output.line(`Deleted ${counted(ids.length, "trace")}`);
  },
};
