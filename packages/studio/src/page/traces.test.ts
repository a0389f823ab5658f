import type { TraceConversation, TraceRating, TraceSummary } from "@tinklet/wire";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { messageOf, readable, rerated, withRating } from "./trace-messages.ts";
import { canExport, type TrainMethod, type TrainSelection, trainCommands } from "./train-commands.ts";

const server = { url: "http://127.0.0.1:8471", needsKey: false };
const linesOf = (method: TrainMethod, selection: TrainSelection): string[] =>
  trainCommands(method, selection, server).split("\n");

describe("messages of traces", () => {
  test("calls of tools have readable arguments; fields of the wrong type are skipped", () => {
    const call = { id: "c1", type: "function", function: { name: "search", arguments: '{"q":"a"}' } };
    expect(messageOf({ role: "assistant", content: null, tool_calls: [call, "x", { function: 3 }] })).toEqual({
      ...{ role: "assistant", content: "", reasoning: "", callId: undefined },
      calls: [
        { id: "c1", name: "search", arguments: '{\n  "q": "a"\n}' },
        { id: "", name: "", arguments: "" },
        { id: "", name: "", arguments: "" },
      ],
    });
    expect(messageOf({ role: "tool", content: "3", tool_call_id: "c1" })).toMatchObject({ content: "3", callId: "c1" });
    expect(messageOf("text")).toMatchObject({ role: "", content: "", calls: [] });
  });

  test("only short JSON is indented", () => {
    expect(readable("{not json")).toBe("{not json");
    expect(readable("12")).toBe("12");
    const long = JSON.stringify({ text: "x".repeat(30_000) });
    expect(readable(long)).toBe(long);
  });
});

describe("ratings", () => {
  const rating = (at: number, value: TraceRating["rating"], answer: string | null = null): TraceRating => ({
    ...{ rating: value, comment: null, answer },
    ratedAt: new Date(at),
  });
  const conversation = (id: string, ...turns: TraceConversation["turns"]): TraceConversation => ({
    ...{ conversationId: id, spanIds: [], tools: [], incomplete: false },
    turns,
  });
  const shared = { message: { role: "assistant", content: "a" }, spanId: "s1" };
  const branches = [
    conversation("x", { message: { role: "user", content: "q" } }, shared),
    conversation("y", shared, { ...shared, spanId: "s2", rating: rating(5, "down") }),
  ];
  const row: TraceSummary = {
    ...{ traceId: "t", startedAt: new Date(0), endedAt: new Date(1), spans: 2, bytes: 9, inputTokens: 1 },
    ...{ outputTokens: 1, models: [], tools: [], rated: true, rating: "down" },
  };

  test("an answer that is in two conversations is rated in both, and the rating is removed from both", () => {
    const rated = withRating(branches, "s1", rating(7, "up"));
    const found = (list: readonly TraceConversation[]) =>
      list.map(({ turns }) => turns.map((turn) => turn.rating?.rating));
    expect(found(rated)).toEqual([
      [undefined, "up"],
      ["up", "down"],
    ]);
    expect(found(withRating(rated, "s1", undefined))).toEqual([
      [undefined, undefined],
      [undefined, "down"],
    ]);
  });

  test("the list shows the rating that was given last", () => {
    expect(rerated(row, withRating(branches, "s1", rating(7, "up"))).rating).toBe("up");
    expect(rerated(row, withRating(branches, "s1", rating(3, "up"))).rating).toBe("down");
    const edited = rerated(row, withRating(branches, "s2", rating(9, null, "better")));
    expect([edited.rated, "rating" in edited]).toEqual([true, false]);
    expect(rerated(row, withRating(branches, "s2", undefined))).toMatchObject({ rated: false });
  });
});

describe("commands that train on traces", () => {
  test("selected traces are named; pairs have a file of their own", () => {
    expect(linesOf("sft", { traceIds: ["aa", "bb"] })).toEqual([
      "export TINKER_BASE_URL=http://127.0.0.1:8471 TINKER_API_KEY=tml-local",
      "npx tinklet traces export aa bb -o data.jsonl",
      "npx tinklet train data.jsonl --name traces",
    ]);
    expect(linesOf("dpo", { traceIds: ["aa"] }).slice(1)).toEqual([
      "npx tinklet traces export aa --as dpo -o pairs.jsonl",
      "npx tinklet recipe run dpo --data pairs.jsonl --name traces",
    ]);
    expect(trainCommands("sft", { traceIds: ["aa"] }, { ...server, needsKey: true })).toContain("TINKER_API_KEY=tml-…");
  });

  test("filters become options; a value stays one word of one line", () => {
    expect(linesOf("sft", { filters: { text: "it's\n$(rm x)", model: "-m", error: "false", rating: "up" } })[1]).toBe(
      "npx tinklet traces export --text='it'\\''s $(rm x)' --model=-m --rating=up --no-error -o data.jsonl",
    );
    expect(linesOf("dpo", { filters: { error: "true" } })[1]).toContain(" --error --as dpo");
  });

  test("a text cannot select pairs", () => {
    expect(canExport("dpo", { filters: { text: "a" } })).toBe(false);
    expect(canExport("dpo", { filters: { tool: "a" } })).toBe(true);
    expect(canExport("sft", { filters: { text: "a" } })).toBe(true);
  });
});

describe("the list", () => {
  const summary = (id: number) => ({
    ...{ trace_id: `t${id}`, started_at: new Date(id).toISOString(), ended_at: new Date(id).toISOString() },
    ...{ spans: 1, bytes: 1, input_tokens: 1, output_tokens: 1, models: [], tools: [], rated: false },
  });
  let list: typeof import("./trace-list.ts");
  beforeAll(async () => {
    // The modules of the page read its address and follow it.
    vi.stubGlobal("location", { hash: "" });
    vi.stubGlobal("document", { hidden: true });
    vi.stubGlobal("addEventListener", () => {});
    vi.useFakeTimers();
    list = await import("./trace-list.ts");
  });
  afterEach(() => list.forgetTraces());

  /** Requests with their answers, which come when the test says so. */
  const requests: { readonly url: URL; readonly answer: (body: object, status?: number) => void }[] = [];
  const serve = () => {
    requests.length = 0;
    vi.stubGlobal(
      "fetch",
      (path: string) =>
        new Promise<Response>((resolve) =>
          requests.push({
            url: new URL(path, "http://x"),
            answer: (body, status = 200) => resolve(Response.json(body, { status })),
          }),
        ),
    );
  };
  const idsOf = () => list.traceList.value?.rows.map(({ traceId }) => traceId);

  test("pages follow each other by cursor; a trace on two pages is listed once", async () => {
    serve();
    const first = list.loadTraces({ rating: "up", text: "refund" });
    expect(requests[0]!.url.searchParams.toString()).toBe("rating=up&text=refund&limit=200");
    requests[0]!.answer({ traces: [summary(2), summary(1)], next_cursor: "c1" });
    await first;
    const second = list.loadMoreTraces();
    await list.loadMoreTraces(); // does nothing: a page is loading
    expect(requests).toHaveLength(2);
    expect(requests[1]!.url.searchParams.get("cursor")).toBe("c1");
    requests[1]!.answer({ traces: [summary(1), summary(0)] });
    await second;
    expect(idsOf()).toEqual(["t2", "t1", "t0"]);
    await list.loadMoreTraces(); // does nothing: this is the end
    expect(requests).toHaveLength(2);
  });

  test("an answer for earlier filters, or after signing out, is dropped", async () => {
    serve();
    const first = list.loadTraces({});
    const second = list.loadTraces({ model: "m" });
    requests[1]!.answer({ traces: [summary(5)] });
    await second;
    requests[0]!.answer({ traces: [summary(6)] });
    await first;
    expect(idsOf()).toEqual(["t5"]);
    const third = list.loadTraces({});
    list.forgetTraces();
    requests[2]!.answer({ traces: [summary(7)] });
    await third;
    expect(list.traceList.value).toBeUndefined();
  });

  test("after a failed page the rows stay, and the same page is loaded again", async () => {
    serve();
    const first = list.loadTraces({});
    requests[0]!.answer({ traces: [summary(1)], next_cursor: "c" });
    await first;
    const second = list.loadMoreTraces();
    requests[1]!.answer({ detail: "too slow" }, 422);
    await second;
    expect(list.traceList.value).toMatchObject({ problem: "too slow", cursor: "c", isLoading: false });
    const third = list.loadMoreTraces();
    requests[2]!.answer({ traces: [summary(0)] });
    await third;
    expect([idsOf(), list.traceList.value?.problem]).toEqual([["t1", "t0"], undefined]);
  });

  test("filters of a URL: values that the server refuses are left out, control characters become visible", () => {
    const query = new URLSearchParams("text=a%1B%5B31mb%07&rating=best&error=true&limit=3");
    expect(list.filtersOf(query)).toEqual({ text: "ab·", error: "true" });
  });
});
