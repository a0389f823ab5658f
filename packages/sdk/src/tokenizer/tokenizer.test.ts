import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { describe, expect, test } from "vitest";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { TokenizerError } from "./errors.ts";
import { installedModels, loadTokenizerWith, tokenizerOfFiles } from "./load.ts";
import { resolveTokenizer } from "./resolve.ts";

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

describe("M-606 the errors are the SDK's own", () => {
  test("of a chat template that is missing or refuses", async () => {
    const user = [{ role: "user", content: "hello" }];
    const plain = await tokenizerOfFiles({ ...tinyTokenizer, "tokenizer_config.json": "{}" }, "it");
    expect(() => plain.applyChatTemplate(user)).toThrow(TokenizerError);
    expect(() => plain.applyChatTemplate(user)).toThrow(expect.objectContaining({ code: "chat_template" }));
    const template = "{{ raise_exception('roles must alternate') }}";
    const strict = await tokenizerOfFiles({ ...tinyTokenizer, "chat_template.jinja": template }, "it");
    expect(() => strict.applyChatTemplate(user)).toThrow(/it: .*roles must alternate/);
    expect(() => strict.applyChatTemplate(user)).toThrow(expect.objectContaining({ code: "chat_template" }));
  });
  test("of a file that is not what it should be", async () => {
    const attempt = tokenizerOfFiles({ "tokenizer.json": "{}" }, "it");
    await expect(attempt).rejects.toThrow(
      expect.objectContaining({ name: "TokenizerError", code: "tokenizer_invalid" }),
    );
  });
});

describe("M-807 a missing package", () => {
  const absent = () =>
    Promise.reject(Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" }));
  const hint = "Run: npm install @tinklet/models";
  test("is named with the line to type", async () => {
    const attempts = [
      loadTokenizerWith({ ...installedModels, models: absent }, "org/tiny"),
      tokenizerOfFiles(tinyTokenizer, "it", { ...installedModels, tokenizer: absent }),
    ];
    for (const attempt of attempts) {
      await expect(attempt).rejects.toThrow(TokenizerError);
      await expect(attempt).rejects.toThrow(expect.objectContaining({ code: "missing_peer", hint }));
    }
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
    external: ["@tinklet/models", "@tinklet/models/*"],
  });
  const external = Object.values(result.metafile.inputs)
    .flatMap((input) => input.imports)
    .filter((item) => item.external === true && item.path.startsWith("@"));
  expect(external.map(({ kind, path }) => [kind, path])).toEqual([
    ["dynamic-import", "@tinklet/models"],
    ["dynamic-import", "@tinklet/models/tokenizer"],
  ]);
});
