import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { describe, expect, test } from "vitest";
import { TokenizerError } from "./errors.ts";
import { resolveTokenizer } from "./resolve.ts";
import { tinyTokenizer } from "./testing/tiny-tokenizer.ts";
import { installedPeers, type TokenizerFiles, tokenizerFromFiles } from "./tokenizer.ts";

describe("M-606 which tokenizer a model has", () => {
  test.each([
    ["Qwen/Qwen3-8B", undefined, { id: "Qwen/Qwen3-8B" }],
    ["Qwen/Qwen3-8B:variant:x", undefined, { id: "Qwen/Qwen3-8B" }],
    ["meta-llama/Llama-3.1-8B", undefined, { id: "thinkingmachineslabinc/meta-llama-3-instruct-tokenizer" }],
    ["meta-llama/Llama-2-7b", undefined, { id: "meta-llama/Llama-2-7b" }],
    ["org/model/variant", undefined, { id: "org/model" }],
    ["org/model/variant/more", undefined, { id: "org/model/variant/more" }],
    ["gpt2", undefined, { id: "gpt2" }],
    ["meta-llama/Llama-3.1-8B", "other/tokenizer", { id: "other/tokenizer" }],
    ["x/y", "a/b/c", { id: "a/b/c" }],
    [
      "moonshotai/Kimi-K2-Thinking",
      undefined,
      { id: "moonshotai/Kimi-K2-Thinking", revision: "612681931a8c906ddb349f8ad0f582cb552189cd" },
    ],
    [
      "moonshotai/Kimi-K2.5",
      undefined,
      { id: "moonshotai/Kimi-K2.5", revision: "4d01dfe0332d63057c186e0b262165819efb6611" },
    ],
    [
      "moonshotai/Kimi-K2.5-Text-Only",
      undefined,
      { id: "moonshotai/Kimi-K2.5", revision: "4d01dfe0332d63057c186e0b262165819efb6611" },
    ],
    [
      "moonshotai/Kimi-K2.6:x",
      undefined,
      { id: "moonshotai/Kimi-K2.6", revision: "b5aabbfb20227ed42becbf5541dbffd213942c58" },
    ],
  ])("%s, told %s", (model, told, expected) => expect(resolveTokenizer(model, told)).toEqual(expected));
});

describe("M-606 a tokenizer", async () => {
  const tiny = await tokenizerFromFiles(tinyTokenizer, "tiny");
  const user = [{ role: "user", content: "hello" }];

  test("encodes and decodes", () => {
    expect(tiny.encode("hello world", { addSpecialTokens: false })).toEqual([259, 264]);
    expect(tiny.encode("hello")).toEqual([265, 259]);
    expect(tiny.decode([259, 264])).toBe("hello world");
    expect(tiny.decode(Int32Array.of(265, 259))).toBe("<|begin|>hello");
    expect(tiny.decode([265, 259], { skipSpecialTokens: true })).toBe("hello");
  });
  test.each(["", " ", "a , b .", "naïve 日本 🧪\n\t", "\ufeffx\u0085y", "x²٣Ⅷ"])(
    "comes back as it went: %j",
    (text) => {
      expect(tiny.decode(tiny.encode(text, { addSpecialTokens: false }))).toBe(text);
    },
  );
  test("decodes nothing, and ids that it does not know, as nothing", () => {
    expect(tiny.decode([])).toBe("");
    expect(tiny.decode([99999, 259])).toBe("hello");
  });
  test("knows its special ids", () => {
    expect(tiny.eosTokenIds).toEqual([267, 268]);
    expect(tiny.bosTokenId).toBe(265);
    expect(tiny.vocabSize).toBe(269);
    expect(tiny.tokenToId("<|im_end|>")).toBe(267);
    expect(tiny.idToToken(259)).toBe("hello");
  });
  test("applies its chat template, as ids or as text, without a second BOS", () => {
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
  test("a template file wins over the configuration", async () => {
    const it = await withTemplate("config", { "chat_template.jinja": "file {{ messages[0].role }}" });
    expect(it.applyChatTemplate(user, { tokenize: false })).toBe("file user");
  });
  test("tools choose the template made for them, and variables reach it", async () => {
    const it = await withTemplate([
      { name: "default", template: "plain {{ mode }}" },
      { name: "tool_use", template: "tools {{ tools | length }}" },
    ]);
    expect(it.applyChatTemplate(user, { tokenize: false, variables: { mode: "x" } })).toBe("plain x");
    expect(it.applyChatTemplate(user, { tokenize: false, tools: [{}, {}] })).toBe("tools 2");
  });
  test("a template that raises says why", async () => {
    const it = await withTemplate("{{ raise_exception('roles must alternate') }}");
    expect(() => it.applyChatTemplate(user)).toThrow(/it: .*roles must alternate/);
  });
  test("without a template there is an error and a way to know before", async () => {
    const it = await withTemplate(undefined);
    expect(it.hasChatTemplate).toBe(false);
    expect(tiny.hasChatTemplate).toBe(true);
    expect(() => it.applyChatTemplate(user)).toThrow(expect.objectContaining({ code: "chat_template" }));
  });
  test.each([
    ["not JSON", "{"],
    ["not an object", "[]"],
    ["no model", "{}"],
  ])("refuses a tokenizer.json that is %s", async (_, text) => {
    const attempt = tokenizerFromFiles({ "tokenizer.json": text }, "it");
    await expect(attempt).rejects.toThrow(expect.objectContaining({ code: "tokenizer_invalid" }));
  });

  const absent = () =>
    Promise.reject(Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" }));
  test("M-807 a missing package is named with the line to type", async () => {
    const attempt = tokenizerFromFiles(tinyTokenizer, "it", { ...installedPeers, tokenizers: absent });
    await expect(attempt).rejects.toThrow(TokenizerError);
    await expect(attempt).rejects.toThrow(
      expect.objectContaining({
        code: "missing_peer",
        hint: "Run: npm install @huggingface/tokenizers @huggingface/jinja",
      }),
    );
  });
  test("M-807 without Jinja only chat templates fail", async () => {
    const it = await tokenizerFromFiles(tinyTokenizer, "it", { ...installedPeers, jinja: absent });
    expect(it.encode("hello", { addSpecialTokens: false })).toEqual([259]);
    expect(() => it.applyChatTemplate(user)).toThrow(expect.objectContaining({ code: "missing_peer" }));
  });
});

test("M-807 nothing heavy is imported before it is needed", async () => {
  const result = await build({
    entryPoints: [fileURLToPath(new URL("./index.ts", import.meta.url))],
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "node",
    external: ["@huggingface/*"],
  });
  const external = Object.values(result.metafile.inputs)
    .flatMap((input) => input.imports)
    .filter((item) => item.external === true && item.path.startsWith("@huggingface/"));
  expect(external.map((item) => item.kind)).toEqual(["dynamic-import", "dynamic-import"]);
});
