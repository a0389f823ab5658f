import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readExamples, toExample } from "./examples.ts";
import { readJsonl } from "./jsonl.ts";
import { readPreferences } from "./preferences.ts";

async function file(content: string | Uint8Array): Promise<string> {
  const path = join(await mkdtemp(join(tmpdir(), "tinklet-jsonl-")), "data.jsonl");
  await writeFile(path, content);
  return path;
}

describe("readJsonl", () => {
  it("gives values with their line numbers, over blank lines, CRLF, a mark and a missing last break", async () => {
    const path = await file('\uFEFF{"a":1}\r\n\r\n{"a":"x\u2028y"}');
    const found = [];
    for await (const line of readJsonl(path)) found.push(line);
    expect(found).toEqual([
      { value: { a: 1 }, line: 1 },
      { value: { a: "x\u2028y" }, line: 3 },
    ]);
  });

  it("reads lines longer than a read of the disk", async () => {
    const long = "x".repeat(300_000);
    const path = await file(`${JSON.stringify({ text: long })}\n${JSON.stringify({ text: "short" })}\n`);
    const examples = await readExamples(path);
    expect(examples.map((example) => example.kind === "text" && example.text.length)).toEqual([300_000, 5]);
  });

  it.each([
    ["not JSON", '{"text":"a"}\n{"text":\n', ":2: is not JSON"],
    ["not UTF-8", new Uint8Array([0x22, 0xff, 0x22, 10]), ":1: is not UTF-8 text"],
    ["a JSON array", '[{"text":\n"a"}]', "2 lines are invalid:\n  lines 1, 2: each is not JSON"],
  ])("names the line of what is %s", async (_, content, message) => {
    await expect(readExamples(await file(content))).rejects.toThrow(message);
  });

  it("lists all invalid lines of a file, grouped by problem, at most twenty", async () => {
    const bad = '{"text":"a"}\n{"txt":"b"}\n{\n{"text":3}\n}\n';
    const failure = await readExamples(await file(bad)).catch((error: Error) => error);
    expect((failure as Error).message.split("\n").slice(1)).toEqual([
      "  lines 2, 4: each has none of messages, prompt and completion, or text",
      "  lines 3, 5: each is not JSON",
    ]);
    const many = await readExamples(await file("{\n".repeat(45))).catch((error: Error) => error);
    expect((many as Error).message).toMatch(
      /: 45 lines are invalid:\n {2}lines 1, .*, 20: each is not JSON\n {2}and 25 more$/,
    );
    const endless = await readExamples(await file("{\n".repeat(5000))).catch((error: Error) => error);
    expect((endless as Error).message).toContain("at least 1000 lines are invalid");
  });

  it("says that a file is missing, a folder or empty", async () => {
    const path = await file("\n");
    await expect(readExamples(path)).rejects.toThrow("has no examples");
    await expect(readExamples(`${path}.none`)).rejects.toThrow("there is no such file");
    await expect(readExamples(tmpdir())).rejects.toThrow("is a folder");
  });
});

describe("toExample", () => {
  const place = { file: "d.jsonl", line: 7 };
  const user = { role: "user", content: "hi" };
  const assistant = { role: "assistant", content: "ho" };

  it("understands conversations, prompts with completions, and texts", () => {
    expect(toExample({ messages: [user, assistant], id: 4 }, place)).toMatchObject({ kind: "chat", line: 7 });
    expect(toExample({ prompt: [user], completion: [assistant] }, place)).toMatchObject({
      kind: "chat",
      messages: [user, assistant],
    });
    expect(toExample({ prompt: "", completion: "b" }, place)).toMatchObject({ kind: "completion", prompt: "" });
    expect(toExample({ text: "b" }, place)).toMatchObject({ kind: "text", text: "b" });
  });

  it.each([
    [3, "must be an object, not a number"],
    [[], "must be an object, not an empty list"],
    [{}, "its keys: none"],
    [{ messages: [] }, "messages must be a list of messages, not an empty list"],
    [{ messages: [{ role: 1, content: "" }] }, "messages[0].role must be a string, not a number"],
    [{ messages: [user, { role: "assistant" }] }, "messages[1].content must be a string, not missing"],
    [{ messages: [user, { ...assistant, content: null }] }, "messages[1].content must be a string, not null"],
    [{ messages: [{ ...assistant, tool_calls: [{}] }] }, "messages[0].tool_calls[0].function.name must be a string"],
    [
      { messages: [{ ...assistant, tool_calls: [{ function: { name: "f", arguments: "[1" } }] }] },
      "messages[0].tool_calls[0].function.arguments must be an object or a JSON object in a string, not a string",
    ],
    [{ messages: [user, assistant], tools: [{}] }, "tools[0].function.name must be a string, not missing"],
    [{ prompt: "a" }, "completion must be a string, not missing"],
    [{ prompt: "a", completion: "" }, "completion must be a string, not empty"],
    [{ text: "" }, "its keys: text"],
  ])("refuses %j", (value, message) => {
    expect(() => toExample(value, place)).toThrow(`d.jsonl:7: `);
    expect(() => toExample(value, place)).toThrow(message);
  });
});

describe("readPreferences", () => {
  const user = { role: "user", content: "Hi" };
  const answer = (content: string) => ({ role: "assistant", content });
  const tools = [{ type: "function", function: { name: "look" } }];

  it("reads strings, lists of messages with tools, and texts as answers to messages", async () => {
    const path = await file(
      [
        { prompt: "Q: ", chosen: "yes", rejected: "no" },
        { prompt: [user], chosen: [answer("Hello!")], rejected: [answer("Go.")], tools },
        { prompt: [user], chosen: "Hello!", rejected: "Go." },
      ]
        .map((row) => JSON.stringify(row))
        .join("\n"),
    );
    const place = { file: path };
    expect(await readPreferences(path)).toEqual([
      {
        chosen: { kind: "completion", prompt: "Q: ", completion: "yes", ...place, line: 1 },
        rejected: { kind: "completion", prompt: "Q: ", completion: "no", ...place, line: 1 },
      },
      {
        chosen: { kind: "chat", messages: [user, answer("Hello!")], tools, ...place, line: 2 },
        rejected: { kind: "chat", messages: [user, answer("Go.")], tools, ...place, line: 2 },
      },
      {
        chosen: { kind: "chat", messages: [user, answer("Hello!")], ...place, line: 3 },
        rejected: { kind: "chat", messages: [user, answer("Go.")], ...place, line: 3 },
      },
    ]);
  });

  it.each([
    ['{"prompt":"a","chosen":"b"}', ":1: rejected must be a string, not missing"],
    ['{"prompt":"a","chosen":"","rejected":"c"}', ":1: chosen must be a string, not empty"],
    [
      '{"prompt":"a","chosen":[{"role":"assistant","content":"b"}],"rejected":"c"}',
      ":1: chosen must be of the same kind",
    ],
    ['{"prompt":[{"role":"user"}],"chosen":"b","rejected":"c"}', ":1: prompt[0].content must be a string"],
    ["[]", ":1: must be an object"],
    [
      '{"chosen":"b","rejected":"c"}\n{"chosen":"b","rejected":"c"}',
      "lines 1, 2: each prompt must be a string, not missing",
    ],
    ["", "has no pairs"],
  ])("refuses %s by line and field", async (content, message) => {
    await expect(readPreferences(await file(content))).rejects.toThrow(message);
  });
});
