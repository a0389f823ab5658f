/** Compares with the Rust library: same ids and text for every recorded case (test/interop/weights/record_tokenizers.py). */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, expectTypeOf, test } from "vitest";
import { tinyGguf } from "../../../../test/fixtures/models/tiny-models.ts";
import { TokenizerError } from "../errors.ts";
import type { GgufValue } from "../weights/gguf.ts";
import { openGguf } from "../weights/gguf-model.ts";
import { tokenizerFromFiles } from "./from-files.ts";
import { tokenizerFilesFromGguf, tokenizerFromGguf } from "./from-gguf.ts";
import { readTokenizerFiles } from "./read-tokenizer-files.ts";
import { createTextStream, type StreamedTokenizer } from "./text-stream.ts";
import type { Tokenizer } from "./types.ts";

type Decodes = [ids: number[], all: string, withoutSpecial: string][];
const recorded = JSON.parse(
  readFileSync(new URL("../../../../test/fixtures/weights/tokenizers.json", import.meta.url), "utf8"),
) as {
  texts: string[];
  byteLevel: { tokens: string[]; merges: string[]; ids: Record<string, number[][]>; decodes: Decodes };
  sentencePiece: { tokens: string[]; types: number[]; scores: number[]; ids: number[][]; decodes: Decodes };
  stripped: { definition: Record<string, unknown>; texts: string[]; ids: number[][] };
  gemma: { definition: Record<string, unknown>; texts: string[]; ids: number[][]; decodes: Decodes };
};
const { texts, byteLevel, sentencePiece } = recorded;

function byteLevelMetadata(pre: string, more: [string, GgufValue][] = []): Map<string, GgufValue> {
  return new Map<string, GgufValue>([
    ["tokenizer.ggml.model", "gpt2"],
    ["tokenizer.ggml.pre", pre],
    ["tokenizer.ggml.tokens", byteLevel.tokens],
    ["tokenizer.ggml.token_type", Float64Array.from(byteLevel.tokens, (_, id) => (id < 3 ? 3 : 1))],
    ["tokenizer.ggml.merges", byteLevel.merges],
    ["tokenizer.ggml.bos_token_id", 1],
    ["tokenizer.ggml.eos_token_id", 2],
    ...more,
  ]);
}

function sentencePieceMetadata(more: [string, GgufValue][] = []): Map<string, GgufValue> {
  return new Map<string, GgufValue>([
    ["tokenizer.ggml.model", "llama"],
    ["tokenizer.ggml.tokens", sentencePiece.tokens],
    ["tokenizer.ggml.token_type", Float64Array.from(sentencePiece.types)],
    ["tokenizer.ggml.scores", Float64Array.from(sentencePiece.scores)],
    ["tokenizer.ggml.bos_token_id", 1],
    ["tokenizer.ggml.eos_token_id", 2],
    ["tokenizer.ggml.unknown_token_id", 0],
    ...more,
  ]);
}

const smollm = tokenizerFromGguf(byteLevelMetadata("smollm"), "x.gguf");
const llama = tokenizerFromGguf(sentencePieceMetadata(), "x.gguf");

describe("equals the Rust library", () => {
  test.each(Object.entries(byteLevel.ids))("byte-level with the pre-tokenizer %s", (pre, ids) => {
    const tokenizer = tokenizerFromGguf(byteLevelMetadata(pre), "x.gguf");
    const got = texts.map((text) => tokenizer.encode(text, { addSpecialTokens: false }));
    texts.forEach((text, i) => {
      expect([text, got[i]]).toEqual([text, ids[i]]);
    });
  });

  test("SentencePiece scores with byte fallback", () => {
    texts.forEach((text, i) => {
      expect([text, llama.encode(text, { addSpecialTokens: false })]).toEqual([text, sentencePiece.ids[i]]);
    });
  });

  test.each(["stripped", "gemma"] as const)("a tokenizer.json: %s", (name) => {
    const { definition, texts: ownTexts, ids } = recorded[name];
    const tokenizer = tokenizerFromFiles({ "tokenizer.json": JSON.stringify(definition) }, name);
    ownTexts.forEach((text, i) => {
      expect([text, tokenizer.encode(text, { addSpecialTokens: false })]).toEqual([text, ids[i]]);
    });
  });

  const gemma = tokenizerFromFiles({ "tokenizer.json": JSON.stringify(recorded.gemma.definition) }, "gemma");
  test.each([
    ["byte-level", smollm, byteLevel.decodes],
    ["SentencePiece", llama, sentencePiece.decodes],
    ["Gemma's", gemma, recorded.gemma.decodes],
  ])("decoding random ids, %s", (_, tokenizer, decodes) => {
    for (const [ids, all, withoutSpecial] of decodes) {
      expect([ids, tokenizer.decode(ids)]).toEqual([ids, all]);
      expect([ids, tokenizer.decode(ids, { skipSpecialTokens: true })]).toEqual([ids, withoutSpecial]);
    }
  });
});

describe("round trips", () => {
  // SentencePiece represents a space as U+2581, so U+2581 itself decodes to a space.
  const anyText = fc.string({ unit: "binary", maxLength: 40 }).map((text) => text.replaceAll("\u2581", "_"));

  test.each([
    ["byte-level", smollm],
    ["SentencePiece", llama],
  ])("any text, %s", (_, tokenizer: Tokenizer) => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(tokenizer.decode(tokenizer.encode(text, { addSpecialTokens: false }))).toBe(text);
      }),
    );
  });

  test("a lone surrogate becomes U+FFFD, and nothing throws", () => {
    expect(smollm.decode(smollm.encode("a\ud800b"))).toBe("a\ufffdb");
    expect(smollm.decode([])).toBe("");
    expect(smollm.encode("")).toEqual([]);
  });

  test("unknown ids decode to nothing", () => {
    expect(smollm.decode([-1, 10 ** 6, 0.5])).toBe("");
    const hello = smollm.encode("Hello");
    expect(smollm.decode([...hello, 10 ** 6])).toBe("Hello");
  });

  test("sampled ids decode without conversion", () => {
    expect(smollm.decode(Int32Array.from(smollm.encode("Hello")))).toBe("Hello");
    expectTypeOf<Int32Array>().toExtend<Parameters<Tokenizer["decode"]>[0]>();
  });
});

describe("streaming", () => {
  const stream = (tokenizer: StreamedTokenizer, ids: readonly number[], options = {}) => {
    const text = createTextStream(tokenizer, options);
    return [...ids.map((id) => text.push(id)), text.end()];
  };

  test("the joined stream equals the decoded text, for any ids of a byte-level vocabulary", () => {
    const ids = fc.array(fc.integer({ min: 0, max: byteLevel.tokens.length - 1 }), { maxLength: 40 });
    fc.assert(
      fc.property(ids, fc.boolean(), (list, skipSpecialTokens) => {
        expect(stream(smollm, list, { skipSpecialTokens }).join("")).toBe(smollm.decode(list, { skipSpecialTokens }));
      }),
    );
  });

  test("end() returns text only if isPending() is true", () => {
    const decodeOnly = { decode: (ids: number[]) => smollm.decode(ids) };
    const ids = fc.array(fc.integer({ min: 0, max: byteLevel.tokens.length - 1 }), { maxLength: 8 });
    for (const tokenizer of [smollm, decodeOnly]) {
      fc.assert(
        fc.property(ids, (list) => {
          const text = createTextStream(tokenizer);
          for (const id of list) text.push(id);
          const pending = text.isPending();
          expect(text.end() === "" || pending).toBe(true);
          expect(text.isPending()).toBe(false);
        }),
      );
    }
    const whole = createTextStream(smollm);
    for (const id of smollm.encode("🦊é Hello")) whole.push(id);
    expect(whole.isPending()).toBe(false);
  });

  test("the joined stream equals the decoded text for encoded text, and each piece has only whole characters", () => {
    for (const tokenizer of [smollm, llama]) {
      for (const text of texts) {
        const ids = tokenizer.encode(text, { addSpecialTokens: false });
        const pieces = stream(tokenizer, ids);
        expect(pieces.join("")).toBe(tokenizer.decode(ids));
        for (const piece of pieces) expect(piece).not.toMatch(/\ufffd|\p{Cs}/u);
      }
    }
  });

  test("a character of four tokens is emitted with the last one, an incomplete one at the end", () => {
    const fox = smollm.encode("🦊");
    expect(fox.length).toBe(4);
    expect(stream(smollm, fox)).toEqual(["", "", "", "🦊", ""]);
    expect(stream(smollm, fox.slice(0, 3))).toEqual(["", "", "", "\ufffd"]);
    expect(stream(smollm, [...fox.slice(0, 2), ...smollm.encode("a")])).toEqual(["", "", "\ufffda", ""]);
  });

  test("the space that SentencePiece adds before the text is removed once", () => {
    const ids = llama.encode("the  the", { addSpecialTokens: false });
    expect(stream(llama, ids).join("")).toBe("the  the");
    expect(stream(llama, [...llama.encode("  a", { addSpecialTokens: false })]).join("")).toBe("  a");
  });

  test("with midText the leading space is kept", () => {
    const ids = ["\u2581upon", "\u2581a"].map((token) => llama.tokenToId(token) as number);
    expect(stream(llama, ids)).toEqual(["upon", " a", ""]);
    expect(stream(llama, ids, { midText: true })).toEqual([" upon", " a", ""]);
    const hello = smollm.encode("Hello");
    expect(stream(smollm, hello, { midText: true })).toEqual(stream(smollm, hello));
  });

  test("with midText, for tokenizers without tokenBytes", () => {
    const words = ["one", "two"];
    const spaced = {
      decode: (ids: readonly number[]) => ids.map((id) => words[id]).join(" "),
    };
    expect(stream(spaced, [0, 1])).toEqual(["one", " two", ""]);
    expect(stream(spaced, [0, 1], { midText: true })).toEqual([" one", " two", ""]);
  });

  test("without tokenBytes: whole characters, and a bounded number of tokens per decode", () => {
    // 4 and 5 are the two bytes of é; 6 emits a space only between words.
    const bytes: Record<number, number[]> = { 4: [0xc3], 5: [0xa9], 6: [0x20, 0x61] };
    let most = 0;
    const decode = (ids: readonly number[]) => {
      most = Math.max(most, ids.length);
      return new TextDecoder().decode(Uint8Array.from(ids.flatMap((id) => bytes[id] ?? []))).replace(/^ /, "");
    };
    expect(stream({ decode }, [4, 5, 6])).toEqual(["", "é", " a", ""]);
    expect(stream({ decode }, [6, 4])).toEqual(["a", "", "\uFFFD"]);
    expect(stream({ decode }, Array<number>(100).fill(6)).join("")).toBe(`a${" a".repeat(99)}`);
    expect(most).toBeLessThanOrEqual(4);
  });
});

describe("special tokens and templates", () => {
  test("BOS and EOS are added if the file or its kind specifies them", () => {
    const ids = (metadata: Map<string, GgufValue>) => tokenizerFromGguf(metadata, "x.gguf").encode("a");
    const a = byteLevel.tokens.indexOf("a");
    expect(ids(byteLevelMetadata("smollm"))).toEqual([a]);
    expect(ids(byteLevelMetadata("llama-bpe"))).toEqual([1, a]);
    expect(ids(byteLevelMetadata("llama-bpe", [["tokenizer.ggml.add_bos_token", false]]))).toEqual([a]);
    expect(ids(byteLevelMetadata("smollm", [["tokenizer.ggml.add_eos_token", true]]))).toEqual([a, 2]);
    expect(llama.encode("a")[0]).toBe(1);
    expect(llama.encode("a", { addSpecialTokens: false })[0]).not.toBe(1);
  });

  test("special tokens in text are encoded as tokens; ids, names and isSpecial agree", () => {
    expect(smollm.encode("<|im_end|>")).toEqual([2]);
    expect(smollm.eosTokenIds).toEqual([2]);
    expect(smollm.tokenToId("<|im_start|>")).toBe(1);
    expect(smollm.idToToken(1)).toBe("<|im_start|>");
    expect([1, 3].map((id) => smollm.isSpecial(id))).toEqual([true, false]);
    expect(smollm.vocabSize).toBe(byteLevel.tokens.length);
    const turn = tokenizerFromGguf(byteLevelMetadata("smollm", [["tokenizer.ggml.eot_token_id", 0]]), "x.gguf");
    expect(turn.eosTokenIds).toEqual([2, 0]);
  });

  test("the chat template of a real file", () => {
    const { metadata, weights } = openGguf(tinyGguf);
    const tokenizer = tokenizerFromGguf(metadata, tinyGguf);
    const messages = [{ role: "user", content: "hé" }];
    const text = tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true, tokenize: false });
    expect(text).toBe("<|im_start|>user\nhé<|im_end|>\n<|im_start|>assistant\n");
    expect(tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true })).toEqual(
      tokenizer.encode(text, { addSpecialTokens: false }),
    );
    weights.close();
    expect(() => smollm.applyChatTemplate(messages)).toThrow(expect.objectContaining({ code: "no_chat_template" }));
  });

  test.each([
    ["an unknown kind", byteLevelMetadata("smollm", [["tokenizer.ggml.model", "bert"]])],
    ["an unknown pre-tokenizer", byteLevelMetadata("martian")],
    ["a pre-tokenizer name from Object.prototype", byteLevelMetadata("constructor")],
    ["no tokens", byteLevelMetadata("smollm", [["tokenizer.ggml.tokens", []]])],
    [
      "a type list of the wrong length",
      byteLevelMetadata("smollm", [["tokenizer.ggml.token_type", new Float64Array(3)]]),
    ],
    ["an id outside the vocabulary", byteLevelMetadata("smollm", [["tokenizer.ggml.eos_token_id", 10 ** 9]])],
    ["scores that are missing", sentencePieceMetadata([["tokenizer.ggml.scores", "none"]])],
  ])("%s is a TokenizerError that names the file", (_, metadata) => {
    expect(() => tokenizerFromGguf(metadata, "x.gguf")).toThrow(TokenizerError);
    expect(() => tokenizerFromGguf(metadata, "x.gguf")).toThrow(/x\.gguf/);
  });
});

describe("converted to files", () => {
  test.each([
    ["byte-level", byteLevelMetadata("llama-bpe", [["tokenizer.ggml.eot_token_id", 0]]), byteLevel.decodes],
    ["SentencePiece", sentencePieceMetadata([["tokenizer.ggml.add_eos_token", true]]), sentencePiece.decodes],
  ])("the tokenizer of a GGUF file is unchanged, %s", (_, metadata, decodes) => {
    const chat = new Map([...metadata, ["tokenizer.chat_template", "{{ eos_token }}{{ messages[0].content }}"]]);
    const direct = tokenizerFromGguf(chat as typeof metadata, "x.gguf");
    const again = tokenizerFromFiles(tokenizerFilesFromGguf(chat as typeof metadata, "x.gguf"), "files");
    for (const text of texts) expect(again.encode(text)).toEqual(direct.encode(text));
    for (const [ids] of decodes) expect(again.decode(ids)).toBe(direct.decode(ids));
    const { eosTokenIds, bosTokenId, vocabSize } = direct;
    expect({ ...again }).toMatchObject({ eosTokenIds, bosTokenId, vocabSize, hasChatTemplate: true });
    const hi = [{ role: "user", content: "hi" }];
    expect(again.applyChatTemplate(hi)).toEqual(direct.applyChatTemplate(hi));
  });

  test("an invalid template fails when applied and names the file; encoding text still works", () => {
    const broken = tokenizerFromGguf(byteLevelMetadata("smollm", [["tokenizer.chat_template", "{% if %}"]]), "x.gguf");
    expect(broken.encode("Hello")).toEqual(smollm.encode("Hello"));
    expect(() => broken.applyChatTemplate([])).toThrow(expect.objectContaining({ code: "bad_chat_template" }));
    expect(() => broken.applyChatTemplate([])).toThrow(/x\.gguf/);
  });
});

describe("a folder", () => {
  const folder = mkdtempSync(join(tmpdir(), "tokenizer-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const inFolder = () => tokenizerFromFiles(readTokenizerFiles(folder), folder);
  const write = (name: string, value: unknown) =>
    writeFileSync(join(folder, name), typeof value === "string" ? value : JSON.stringify(value));
  const definition = {
    added_tokens: byteLevel.tokens
      .slice(0, 3)
      .map((content, id) => ({ id, content, special: true, normalized: false })),
    normalizer: null,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Digits", individual_digits: true },
        { type: "ByteLevel", add_prefix_space: false },
      ],
    },
    post_processor: null,
    decoder: { type: "ByteLevel" },
    model: {
      type: "BPE",
      vocab: Object.fromEntries(byteLevel.tokens.map((token, id) => [token, id])),
      merges: byteLevel.merges,
    },
  };

  test("a tokenizer.json equals the Rust library, including rare digits and white space", () => {
    write("tokenizer.json", definition);
    const tokenizer = inFolder();
    texts.forEach((text, i) => {
      expect([text, tokenizer.encode(text)]).toEqual([text, byteLevel.ids["smollm"]?.[i]]);
    });
  });

  test("settings files: several EOS ids, special tokens as objects, templates by name or as a file", () => {
    write("tokenizer.json", definition);
    write("generation_config.json", { eos_token_id: [2] });
    write("config.json", { eos_token_id: [2, 1] });
    write("tokenizer_config.json", {
      eos_token: { content: "<|endoftext|>" },
      chat_template: [
        { name: "tool_use", template: "no" },
        { name: "default", template: "{{ eos_token }}{{ messages[0].content }}{{ 'tools' if tools else '' }}" },
      ],
    });
    const first = inFolder();
    expect(first.eosTokenIds).toEqual([0, 2, 1]); // the tokenizer's EOS first
    const hi = [{ role: "user", content: "hi" }];
    expect(first.applyChatTemplate(hi, { tokenize: false })).toBe("<|endoftext|>hi");
    expect(first.applyChatTemplate(hi, { tokenize: false, tools: [] })).toBe("no");
    write("chat_template.jinja", "{{ raise_exception('not like this') if messages | length > 1 }}{{ extra }}");
    const second = inFolder();
    expect(second.applyChatTemplate([], { tokenize: false, variables: { extra: "more" } })).toBe("more");
    const two = [
      { role: "user", content: "a" },
      { role: "user", content: "b" },
    ];
    expect(() => second.applyChatTemplate(two)).toThrow(/not like this/);
  });

  test.each([
    ["nonsense", "{"],
    ["another kind of file", { hello: 1 }],
    ["a model that is not BPE", { ...definition, model: { type: "Unigram", vocab: [] } }],
    ["an invalid id", { ...definition, model: { ...definition.model, vocab: { a: -1 } } }],
    ["merges that are not pairs", { ...definition, model: { ...definition.model, merges: [7] } }],
    [
      "a split behavior that is not supported",
      {
        ...definition,
        pre_tokenizer: { type: "Split", pattern: { String: " " }, behavior: "MergedWithPrevious", invert: false },
      },
    ],
    ["an unknown component", { ...definition, normalizer: { type: "Martian" } }],
    ["an added token without an id", { ...definition, added_tokens: [{ content: "x" }] }],
  ])("%s is a TokenizerError", (_, value) => {
    write("tokenizer.json", value);
    expect(() => inFolder()).toThrow(TokenizerError);
  });

  test("no tokenizer.json, with a hint for SentencePiece models", () => {
    rmSync(join(folder, "tokenizer.json"));
    expect(() => inFolder()).toThrow(expect.objectContaining({ code: "no_tokenizer" }));
    write("tokenizer.model", "");
    expect(() => inFolder()).toThrow(/save_pretrained/);
  });
});
