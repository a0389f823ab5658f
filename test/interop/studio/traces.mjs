// Traces as a support agent exports them, and the page that shows them: filters, rating, editing, deleting, the commands for training.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { hostileTexts } from "./world.mjs";

const keyValues = (attributes) =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
  }));
const said = (role, content) => ({ role, parts: [{ type: "text", content }] });
const hex = (number, length) => number.toString(16).padStart(length, "0");

/** One call of a model, in OpenTelemetry's conventions. */
const chatSpan = ({ trace, span = 1, at, model = "tinklet/base", input, output, error, tools }) => ({
  traceId: hex(trace, 32),
  spanId: hex(trace * 16 + span, 16),
  name: `chat ${model}`,
  startTimeUnixNano: `${at}000000000`,
  endTimeUnixNano: `${at + 1}500000000`,
  attributes: keyValues({
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": model,
    "gen_ai.usage.input_tokens": 40 + span,
    "gen_ai.usage.output_tokens": 12,
    "gen_ai.input.messages": JSON.stringify(input),
    ...(output === undefined ? {} : { "gen_ai.output.messages": JSON.stringify([output]) }),
    ...(tools === undefined ? {} : { "gen_ai.tool.definitions": JSON.stringify(tools) }),
  }),
  ...(error === undefined ? {} : { status: { code: 2, message: error } }),
});

const tools = [
  {
    type: "function",
    name: "search_orders",
    description: "Finds orders",
    parameters: { type: "object", properties: { id: { type: "string" } } },
  },
];

/** A question that takes a call of a tool: two calls of the model, which are one conversation. */
function orderTrace(trace, at) {
  const asked = [said("system", "You answer customers of a shop."), said("user", `Where is order ${trace}?`)];
  const call = { type: "tool_call", id: "call-1", name: "search_orders", arguments: { id: `A-${trace}` } };
  const calling = { role: "assistant", parts: [call], finish_reason: "tool_call" };
  const response = { status: "sent", days: 3 };
  const result = { role: "tool", parts: [{ type: "tool_call_response", id: "call-1", response }] };
  return [
    chatSpan({ trace, at, input: asked, output: calling, tools }),
    chatSpan({
      ...{ trace, span: 2, at: at + 2, tools, input: [...asked, calling, result] },
      output: { ...said("assistant", "Your order was sent. It arrives in 3 days."), finish_reason: "stop" },
    }),
  ];
}

const refundTrace = (trace, at, error) => [
  chatSpan({
    ...{ trace, at, model: "other/model", input: [said("user", `Refund for order ${trace}, please.`)], error },
    ...(error === undefined ? { output: { ...said("assistant", "Yes."), finish_reason: "stop" } } : {}),
  }),
];

async function send(url, spans, apiKey) {
  const resource = { attributes: keyValues({ "service.name": "support" }) };
  const response = await fetch(`${url}/v1/traces`, {
    method: "POST",
    headers: { "content-type": "application/json", ...(apiKey === undefined ? {} : { "x-api-key": apiKey }) },
    body: JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ spans }] }] }),
  });
  assert.equal(response.status, 200, await response.text());
}

/** Exports 24 traces: 16 about orders, 8 about refunds, two of which failed. */
export async function writeTraces(url, apiKey) {
  const now = Math.floor(Date.now() / 1000) - 100_000;
  const spans = Array.from({ length: 24 }, (_, i) => {
    const [trace, at] = [i + 1, now + i * 3600];
    if (trace <= 16) return orderTrace(trace + 16, at);
    return refundTrace(trace + 16, at, trace > 22 ? "429: the provider is overloaded" : undefined);
  });
  await send(url, spans.flat(), apiKey);
}

/** Exports traces in which every text is hostile. */
export async function writeHostileTraces(url) {
  const texts = hostileTexts();
  const at = Math.floor(Date.now() / 1000);
  const spans = texts.slice(0, 60).map((text, i) => {
    const next = (n) => texts[(i * 7 + n) % texts.length];
    const call = { type: "tool_call", id: next(1), name: next(2).slice(0, 100), arguments: next(3) };
    return chatSpan({
      ...{ trace: 1000 + i, at: at - i, model: next(4).slice(0, 100) },
      input: [said("system", next(5)), said("user", text)],
      output: { role: "assistant", parts: [{ type: "text", content: next(6) }, call] },
      ...(i % 3 === 0 ? { error: next(7) } : {}),
    });
  });
  await send(url, spans);
}

const cli = fileURLToPath(new URL("../../../packages/tinklet/bin/tinklet.mjs", import.meta.url));

/** Runs a command as it is pasted, with this repository's `tinklet`. */
const pasted = (commands, cwd) =>
  execFileSync("sh", ["-euc", commands.replaceAll("npx tinklet", `"${process.execPath}" "${cli}"`)], {
    cwd,
    encoding: "utf8",
  });

/** The checks of the page; `check` and `go` are the tour's. */
export async function tracesTour({ browser, server, page, check, go, work }) {
  const rows = () => page.getByTestId("traces").getByRole("row");
  const count = (text) => page.getByTestId("trace-count").getByText(text, { exact: true }).waitFor();
  const open = async (name) => {
    await page.getByTestId("traces").getByRole("link", { name, exact: true }).click();
    await page.getByTestId("conversation").first().waitFor();
  };
  await check(
    "traces: a list with filters by text, model, tool, error and rating, which the address keeps",
    async () => {
      await writeTraces(server.url);
      await go("/traces");
      await count("24 traces");
      await page.getByLabel("Text", { exact: true }).fill("REFUND FOR");
      await count("8 traces");
      await page.getByLabel("Error").selectOption("true");
      await count("2 traces");
      assert.match(page.url(), /traces\?text=REFUND\+FOR&error=true$/);
      assert.match(await rows().nth(1).textContent(), /Refund for order 40, please\.[\s\S]*Error[\s\S]*other\/model/);
      await page.reload();
      await count("2 traces");
      await page.getByLabel("Error").selectOption("");
      await page.getByLabel("Text", { exact: true }).fill("");
      await page.getByLabel("Tool").fill("search_orders");
      await count("16 traces");
      await page.getByLabel("Model").fill("other/model");
      await page.getByText("No trace matches.").waitFor();
      await page.getByRole("link", { name: "Remove the filters" }).click();
      await count("24 traces");
      assert.equal(await page.getByLabel("Tool").inputValue(), "");
    },
  );
  await check("a trace is a conversation with a tool's call and result; the next one is a link away", async () => {
    await page.getByLabel("Text", { exact: true }).fill("order 3");
    await count("10 traces");
    await open("Where is order 31?");
    const text = await page.getByTestId("conversation").textContent();
    assert.match(text, /System[\s\S]*Where is order 31\?[\s\S]*Calls search_orders[\s\S]*"id": "A-31"/);
    assert.match(text, /Result of search_orders[\s\S]*"status": "sent"[\s\S]*It arrives in 3 days\./);
    await page.getByText("Spans (2)").click();
    assert.equal(await page.getByRole("row").count(), 3);
    await page.getByRole("link", { name: "Next" }).click();
    await page.getByRole("heading", { name: "Where is order 30?" }).waitFor();
    await page.getByRole("link", { name: "Traces" }).last().click();
    await count("10 traces"); // the filters are kept
    await page.getByLabel("Text", { exact: true }).fill("");
    await count("24 traces");
    await open("Refund for order 40, please.");
    await page.getByTestId("conversation").getByText("429: the provider is overloaded").waitFor();
  });
  await check("answers are rated, commented on and edited, by keyboard; the server keeps it", async () => {
    await go("/traces");
    await open("Where is order 30?");
    const pressed = (name) => page.getByRole("button", { name }).getAttribute("aria-pressed");
    await page.getByRole("button", { name: "Good answer 2" }).focus();
    await page.keyboard.press("Enter");
    await page.getByText("The rating was saved.").waitFor();
    assert.deepEqual([await pressed("Good answer 2"), await pressed("Good answer 1")], ["true", "false"]);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.locator("button[aria-label='Bad answer 2'][aria-pressed=true]").waitFor();
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByLabel("Comment of answer 2").waitFor();
    await page.keyboard.type("The date is missing.");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByLabel("Comment of answer 2").waitFor({ state: "detached" });
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Comment");
    await page.getByRole("button", { name: "Edit answer 2" }).click();
    await page.getByLabel("Edited answer 2").waitFor();
    await page.keyboard.press("Escape");
    await page.getByLabel("Edited answer 2").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Edit answer 2" }).click();
    await page.getByLabel("Edited answer 2").fill("It arrives on Monday.");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("Recorded answer", { exact: true }).waitFor();
    await page.reload();
    const answer = page.locator(".message").last();
    assert.match(
      await answer.textContent(),
      /Edited[\s\S]*It arrives on Monday\.[\s\S]*Comment: The date is missing\./,
    );
    assert.equal(await pressed("Bad answer 2"), "true");
    await go("/traces?rating=down");
    await count("1 trace");
    await page.getByText("Rated bad").last().waitFor();
    const found = await page.evaluate(async () => (await fetch("/api/v1/tinklet/traces?rating=rated")).json());
    assert.deepEqual(
      found.traces.map(({ prompt, rating }) => [prompt, rating]),
      [["Where is order 30?", "down"]],
    );
    await open("Where is order 30?");
    await page.getByRole("button", { name: "Bad answer 2" }).click(); // a second time: removed
    await page.locator("button[aria-label='Bad answer 2'][aria-pressed=false]").waitFor();
    await page.getByRole("button", { name: "Restore the recorded answer" }).click();
    await page.getByText("It arrives on Monday.").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Edit answer 2" }).click();
    await page.getByLabel("Edited answer 2").fill("It arrives on Tuesday.");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("It arrives on Tuesday.").waitFor();
  });
  await check(
    "the commands that train on selected traces, and on all that match, work as they are pasted",
    async () => {
      await go("/traces");
      for (const order of [30, 31, 32])
        await page.getByRole("checkbox", { name: `Select Where is order ${order}?` }).check();
      await page.getByText("3 selected").waitFor();
      await page.getByRole("button", { name: "Train …" }).click();
      const commands = async () => {
        await page.getByRole("button", { name: "Copy commands" }).click();
        await page.getByRole("button", { name: "Copied" }).waitFor();
        return page.evaluate(() => navigator.clipboard.readText());
      };
      const exported = (text, file) => {
        const lines = text.split("\n");
        pasted(lines.slice(0, 2).join("\n"), work);
        const data = readFileSync(join(work, file), "utf8").trim().split("\n");
        return { rest: lines.slice(2), data: data.map((line) => JSON.parse(line)) };
      };
      const sft = exported(await commands(), "data.jsonl");
      assert.deepEqual(sft.rest, ["npx tinklet train data.jsonl --name traces"]);
      const answers = sft.data.map(({ messages }) => messages.at(-1).content).sort();
      const recorded = "Your order was sent. It arrives in 3 days.";
      assert.deepEqual(answers, ["It arrives on Tuesday.", recorded, recorded]);
      await page.getByText("Rated pairs (DPO)").click();
      const dpo = exported(await commands(), "pairs.jsonl");
      assert.deepEqual(
        dpo.data.map(({ chosen, rejected }) => [chosen.at(-1).content, rejected.at(-1).content]),
        [["It arrives on Tuesday.", recorded]],
      );
      assert.deepEqual(dpo.rest, ["npx tinklet recipe run dpo --data pairs.jsonl --name traces"]);
      await page.getByRole("button", { name: "Close" }).click();
      await go("/traces?text=it%27s%20%24%28touch%20x%29%20order");
      await page.getByText("No trace matches.").waitFor();
      await go("/traces?text=order&error=false&tool=search_orders");
      await count("16 traces");
      await page.getByRole("button", { name: "Train on all …" }).click();
      assert.equal(exported(await commands(), "data.jsonl").data.length, 16);
      await page.getByText("Rated pairs (DPO)").click();
      await page.getByText("A search for text cannot select pairs.").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
    },
  );
  await check("a trace is deleted after a question, and kept by Escape", async () => {
    await go("/traces");
    await open("Where is order 32?");
    const question = page.getByRole("dialog").filter({ hasText: "Delete this trace?" });
    await page.getByRole("button", { name: /^Delete/ }).click();
    await question.getByText("Its 2 spans and their ratings cannot be restored.").waitFor();
    await page.keyboard.press("Escape");
    await question.waitFor({ state: "detached" });
    await page.getByRole("button", { name: /^Delete/ }).click();
    await page.getByRole("button", { name: "Delete permanently" }).click();
    await count("23 traces");
    await page.reload();
    await count("23 traces");
  });
  await check("sixty traces with hostile texts in every attribute are text", async () => {
    const before = browser.wrongs.length;
    await go("/traces");
    await writeHostileTraces(server.url);
    await page.getByRole("button", { name: "Refresh" }).click();
    await count("83 traces");
    const { traces } = await page.evaluate(async () => (await fetch("/api/v1/tinklet/traces?limit=60")).json());
    assert.equal(traces.filter(({ trace_id }) => /^0+[0-9a-f]{3}$/.test(trace_id)).length, 60);
    for (const { trace_id: id } of traces.slice(0, 20)) {
      await go(`/traces/${id}`);
      await page.getByTestId("conversation").first().waitFor();
      await page.getByRole("button", { name: "Edit answer 1" }).click();
      await page.getByLabel("Edited answer 1").waitFor();
    }
    assert.deepEqual(browser.wrongs.slice(before), []);
    for (const { trace_id: id } of traces)
      await page.evaluate((one) => fetch(`/api/v1/tinklet/traces/${one}`, { method: "DELETE" }), id);
  });
}

/** The places that axe judges and whose width is measured: the list, a selection, the commands, a trace, an open editor, the question. */
export async function eachTracesPlace(page, go, judge) {
  await go("/traces");
  await page.getByTestId("traces").waitFor();
  await judge("traces");
  await page.getByRole("checkbox").first().check();
  await judge("a selected trace");
  await page.getByRole("button", { name: "Train …" }).click();
  await page.getByRole("dialog").waitFor();
  await judge("the commands for training");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByLabel("Tool").fill("search_orders");
  await page.getByTestId("trace-count").getByText("15 traces").waitFor();
  await page.getByRole("link", { name: "Where is order 30?" }).click();
  await page.getByTestId("conversation").waitFor();
  await page.getByText("Spans (2)").click();
  await page.getByText(/^Tools \(1\)/).click();
  await page.getByRole("button", { name: "Comment on answer 1" }).click();
  await page.getByRole("button", { name: "Edit answer 2" }).click();
  await page.getByLabel("Edited answer 2").waitFor();
  await judge("a trace");
  await page.getByRole("button", { name: /^Delete/ }).click();
  await page.getByRole("dialog").waitFor();
  await judge("the question before deleting a trace");
  await page.keyboard.press("Escape");
}
