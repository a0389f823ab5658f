/** Tokenizers with a `tiktoken.model`, compared with the Python package (recorded by test/interop/weights/record_tiktoken.py). */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, test } from "vitest";
import { TokenizerError } from "../errors.ts";
import { loadTokenizer, loadTokenizerFiles } from "../load-tokenizer.ts";
import { tokenizerFromFiles } from "./from-files.ts";
import { tokenizerToGguf } from "./to-gguf.ts";

interface Recorded {
  readonly model: string;
  readonly settings: Record<string, unknown>;
  readonly texts: readonly { readonly text: string; readonly ids: readonly number[] }[];
  readonly repeated: readonly {
    readonly text: string;
    readonly times: number;
    readonly count: number;
    readonly hash: number;
  }[];
}
const path = new URL("../../../../test/fixtures/weights/tiktoken.json", import.meta.url);
const recorded = JSON.parse(await readFile(path, "utf8")) as Recorded;
const filesOf = (changes: { model?: string; settings?: Record<string, unknown> } = {}) => ({
  "tokenizer.json": "",
  "tiktoken.model": changes.model ?? recorded.model,
  "tokenizer_config.json": JSON.stringify({ ...recorded.settings, ...changes.settings }),
  "generation_config.json": '{"eos_token_id": 5}',
});
const tokenizer = tokenizerFromFiles(filesOf(), "small");

test.each(recorded.texts)("encodes as tiktoken does, and decodes back: $text", ({ text, ids }) => {
  expect(tokenizer.encode(text)).toEqual(ids);
  expect(tokenizer.decode(ids)).toBe(text);
});

test.each(recorded.repeated)(
  "long runs are split as in the official code: $times × $text",
  ({ text, times, count, hash }) => {
    const ids = tokenizer.encode(text.repeat(times));
    expect(ids).toHaveLength(count);
    expect(ids.reduce((total, id) => (total * 31 + id) % 1_000_000_007, 0)).toBe(hash);
  },
);

it("has 256 special tokens after the ranks, named or reserved", () => {
  const base = recorded.model.trim().split("\n").length;
  expect(tokenizer.vocabSize).toBe(base + 256);
  expect([tokenizer.bosTokenId, tokenizer.eosTokenIds]).toEqual([base, [base + 1, 5]]);
  expect(tokenizer.tokenToId("<|im_end|>")).toBe(base + 2);
  expect(tokenizer.idToToken(base + 3)).toBe(`<|reserved_token_${base + 3}|>`);
  expect([base - 1, base, base + 5, base + 255, base + 256].map(tokenizer.isSpecial)).toEqual([
    false,
    true,
    false,
    true,
    false,
  ]);
  expect(tokenizer.decode([base, 0, base + 5, base + 300], { skipSpecialTokens: true })).toBe("\0<think>");
  expect(tokenizer.tokenBytes(0xff)).toHaveLength(1);
});

it("renders chats with the template and special tokens", () => {
  const chat = tokenizerFromFiles(
    { ...filesOf(), "chat_template.jinja": "{{ bos_token }}{{ messages[0].content }}<|im_end|>" },
    "small",
  );
  const [bos, end] = ["[BOS]", "<|im_end|>"].map((token) => chat.tokenToId(token)!);
  expect(chat.applyChatTemplate([{ role: "user", content: "a" }])).toEqual([bos, ...chat.encode("a"), end]);
});

it.each([
  ["a line without a rank", { model: "YQ==\n" }, /line 1 must be base64 and a rank/],
  ["a rank twice", { model: "YQ== 0\nYg== 0\n" }, /line 2: ranks must be 0 to 1, each once, got 0/],
  ["a token twice", { model: "YQ== 0\nYQ== 1\n" }, /a token appears twice/],
  ["a missing byte", { model: "YQ== 0\n" }, /byte 0 is not a token/],
  [
    "a special token without content",
    { settings: { added_tokens_decoder: { [tokenizer.bosTokenId!]: {} } } },
    /must have a content/,
  ],
])("rejects %s", (_, changes, message) => {
  const build = () => tokenizerFromFiles(filesOf(changes), "small");
  expect(build).toThrow(TokenizerError);
  expect(build).toThrow(message);
});

it("is loaded from a folder; GGUF cannot represent it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tiktoken-"));
  for (const [name, text] of Object.entries(filesOf())) if (text !== "") await writeFile(join(folder, name), text);
  const { text, ids } = recorded.texts[5]!;
  expect((await loadTokenizer(folder)).encode(text)).toEqual(ids);
  const files = await loadTokenizerFiles(folder);
  expect(() => tokenizerToGguf(files, 1000, "small")).toThrow(
    /GGUF cannot represent a tokenizer without a tokenizer.json/,
  );
  await rm(folder, { recursive: true });
});
