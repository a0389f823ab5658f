/** A tokenizer built from the contents of its files. */
import { describe, expect, test } from "vitest";
import { tinyTokenizer } from "../testing/tiny-tokenizer.ts";
import { tokenizerFromFiles } from "./from-files.ts";
import type { TokenizerFiles } from "./types.ts";

describe("M-606 a tokenizer", () => {
  const tiny = tokenizerFromFiles(tinyTokenizer, "tiny");
  const user = [{ role: "user", content: "hello" }];

  test("encodes and decodes", () => {
    expect(tiny.encode("hello world", { addSpecialTokens: false })).toEqual([259, 264]);
    expect(tiny.encode("hello")).toEqual([265, 259]);
    expect(tiny.decode([259, 264])).toBe("hello world");
    expect(tiny.decode(Int32Array.of(265, 259))).toBe("<|begin|>hello");
    expect(tiny.decode([265, 259], { skipSpecialTokens: true })).toBe("hello");
  });
  test.each(["", " ", "a , b .", "naïve 日本 🧪\n\t", "\ufeffx\u0085y", "x²٣Ⅷ"])("round trip: %j", (text) => {
    expect(tiny.decode(tiny.encode(text, { addSpecialTokens: false }))).toBe(text);
  });
  test("decodes an empty list and unknown ids to an empty string", () => {
    expect(tiny.decode([])).toBe("");
    expect(tiny.decode([99999, 259])).toBe("hello");
  });
  test("has the special ids", () => {
    expect(tiny.eosTokenIds).toEqual([267, 268]);
    expect(tiny.bosTokenId).toBe(265);
    expect(tiny.vocabSize).toBe(269);
    expect(tiny.tokenToId("<|im_end|>")).toBe(267);
    expect(tiny.idToToken(259)).toBe("hello");
  });
  test("applies the chat template, as ids or text, without a duplicate BOS", () => {
    const text = "<|begin|><|im_start|>user\nhello<|im_end|>\n";
    expect(tiny.applyChatTemplate(user, { tokenize: false })).toBe(text);
    expect(tiny.applyChatTemplate(user, { tokenize: false, addGenerationPrompt: true })).toBe(
      `${text}<|im_start|>assistant\n`,
    );
    const ids = tiny.applyChatTemplate(user);
    expect(ids).toEqual(tiny.encode(text, { addSpecialTokens: false }));
    expect(ids.filter((id) => id === 265)).toHaveLength(1);
  });

  const withTemplate = (chat_template: unknown, more: Partial<TokenizerFiles> = {}) =>
    tokenizerFromFiles({ ...tinyTokenizer, "tokenizer_config.json": JSON.stringify({ chat_template }), ...more }, "it");
  test("a template file takes precedence over the configuration", () => {
    const it = withTemplate("config", { "chat_template.jinja": "file {{ messages[0].role }}" });
    expect(it.applyChatTemplate(user, { tokenize: false })).toBe("file user");
  });
  test("tools select the tool_use template, and variables are passed to it", () => {
    const it = withTemplate([
      { name: "default", template: "plain {{ mode }}" },
      { name: "tool_use", template: "tools {{ tools | length }}" },
    ]);
    expect(it.applyChatTemplate(user, { tokenize: false, variables: { mode: "x" } })).toBe("plain x");
    expect(it.applyChatTemplate(user, { tokenize: false, tools: [{}, {}] })).toBe("tools 2");
  });
  test("an error raised by a template is in the message", () => {
    const it = withTemplate("{{ raise_exception('roles must alternate') }}");
    expect(() => it.applyChatTemplate(user)).toThrow(/it: .*roles must alternate/);
  });
  test("a missing template is an error, and hasChatTemplate is false", () => {
    const it = withTemplate(undefined);
    expect(it.hasChatTemplate).toBe(false);
    expect(tiny.hasChatTemplate).toBe(true);
    expect(() => it.applyChatTemplate(user)).toThrow(expect.objectContaining({ code: "no_chat_template" }));
  });
  test.each([
    ["not JSON", "{"],
    ["not an object", "[]"],
    ["no model", "{}"],
  ])("refuses a tokenizer.json that is %s", (_, text) => {
    const attempt = () => tokenizerFromFiles({ "tokenizer.json": text }, "it");
    expect(attempt).toThrow(expect.objectContaining({ name: "TokenizerError", code: "bad_tokenizer" }));
    expect(attempt).toThrow(/^it: /);
  });
});
