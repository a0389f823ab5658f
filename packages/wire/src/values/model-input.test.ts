import { describe, expect, expectTypeOf, it } from "vitest";
import { refusal } from "../../../sdk/src/testing/refusal.ts";
import { ResponseValidationError } from "../errors.ts";
import { firstDimension, ModelInput, type ModelInputChunk } from "./model-input.ts";

const image = { type: "image", data: Uint8Array.of(255, 254, 0), format: "png", expectedTokens: 2 } as const;
const pointer = { type: "image_asset_pointer", format: "jpeg", location: "gs://x" } as const;
const dmel = { type: "dmel", dmel: Uint8Array.of(4, 2, 130, 1, 80) } as const;

describe("ModelInput", () => {
  it("M-307: fromInts, toInts, length, empty, append and appendInt, all immutable", () => {
    const tokens = [1, 2, 3];
    const input = ModelInput.fromInts(tokens);
    tokens[0] = 99;
    expect(input.toInts()).toEqual([1, 2, 3]);
    const longer = input.appendInt(4).append(image);
    expect(input.length).toBe(3);
    expect(longer.length).toBe(6);
    expect(longer.chunks).toHaveLength(3);
    expect(ModelInput.empty().length).toBe(0);
    expect(ModelInput.empty().toInts()).toEqual([]);
    expect(refusal(() => longer.toInts()).message).toBe("chunks[2]: is a chunk of type image, which has no token ids");
    expect(Object.isFrozen(input.chunks)).toBe(true);
    const typed = Int32Array.of(5, 6);
    const fromTyped = ModelInput.fromInts(typed);
    typed[0] = 0;
    expect(fromTyped.toInts()).toEqual([5, 6]);
  });

  it("M-307: what is no token id is refused with its position", () => {
    expect(refusal(() => ModelInput.fromInts([1, 2.5])).field).toBe("tokens[1]");
    expect(refusal(() => ModelInput.fromInts([2 ** 31])).message).toBe(
      "tokens[0]: must be a token id (an integer of 32 bits), not 2147483648",
    );
    expect(refusal(() => ModelInput.fromInts("abc" as never)).field).toBe("tokens");
    expect(refusal(() => ModelInput.fromInts(["1"] as never)).field).toBe("tokens[0]");
    expect(refusal(() => ModelInput.fromInts(null as never)).field).toBe("tokens");
    expect(refusal(() => ModelInput.empty().appendInt(0.5)).field).toBe("token[0]");
    expect(refusal(() => new ModelInput("x" as never)).field).toBe("chunks");
    expect(ModelInput.fromInts([-(2 ** 31), 2 ** 31 - 1]).length).toBe(2);
  });

  it("M-308: chunks on the wire, field by field, bytes as base64", () => {
    const input = new ModelInput([
      { type: "encoded_text", tokens: Int32Array.of(1) },
      image,
      pointer,
      { type: "dmel", dmel: Uint8Array.of(4, 1, 5, 0) },
    ]);
    const wire = {
      chunks: [
        { tokens: [1], type: "encoded_text" },
        { data: "//4A", format: "png", expected_tokens: 2, type: "image" },
        { format: "jpeg", location: "gs://x", type: "image_asset_pointer" },
        { dmel: "BAEFAA==", type: "dmel" },
      ],
    };
    expect(ModelInput.message.encode(input)).toEqual(wire);
    expect(ModelInput.message.decode(wire)).toEqual(input);
    expect(JSON.parse(JSON.stringify(ModelInput.fromInts([7])))).toEqual({
      chunks: [{ tokens: [7], type: "encoded_text" }],
    });
  });

  it("M-308: a chunk without a type is known by its fields", () => {
    const read = (chunk: object) => ModelInput.message.decode({ chunks: [chunk] }).chunks[0]?.type;
    expect(read({ tokens: [1] })).toBe("encoded_text");
    expect(read({ data: "", format: "png" })).toBe("image");
    expect(read({ location: "x", format: "png" })).toBe("image_asset_pointer");
    expect(read({ dmel: "" })).toBe("dmel");
  });

  it("M-309: the union is discriminated on type, and unknown kinds are refused", () => {
    expectTypeOf<ModelInputChunk["type"]>().toEqualTypeOf<"encoded_text" | "image" | "image_asset_pointer" | "dmel">();
    expect(() => ModelInput.message.decode({ chunks: [{ type: "video" }] })).toThrow(ResponseValidationError);
    expect(() => ModelInput.message.decode({ chunks: [5] })).toThrow(/chunks\[0\]/);
    expect(() => ModelInput.message.decode({ chunks: [{ type: "image", data: "", format: "gif" }] })).toThrow(
      /chunks\[0\]\.format/,
    );
    const bad = new ModelInput([{ type: "toString" } as never]);
    expect(refusal(() => ModelInput.message.encode(bad)).field).toBe("chunks[0].type");
    expect(refusal(() => ModelInput.message.encode(new ModelInput([5 as never]))).field).toBe("chunks[0]");
    expect(refusal(() => ModelInput.message.encode({} as never)).problem).toContain("must be a ModelInput");
    expect(
      refusal(() => ModelInput.message.encode(new ModelInput([{ type: "encoded_text", tokens: [1, 0.5] }]))).field,
    ).toBe("chunks[0].tokens[1]");
  });

  it("M-309: the length of an image without expectedTokens is a typed error", () => {
    expect(refusal(() => new ModelInput([pointer]).length).field).toBe("chunks[0].expectedTokens");
    const { expectedTokens: _expected, ...bare } = image;
    expect(refusal(() => new ModelInput([bare]).length).field).toBe("chunks[0].expectedTokens");
    expect(new ModelInput([{ ...pointer, expectedTokens: 7 }]).length).toBe(7);
  });

  it("M-310: fromText uses the tokenizer that the caller brings", () => {
    const tokenizer = { encode: (text: string) => Array.from(text, (letter) => letter.charCodeAt(0)) };
    expect(ModelInput.fromText("hi", { tokenizer }).toInts()).toEqual([104, 105]);
  });

  it("M-308: the length of audio features is the first dimension of their header", () => {
    expect(new ModelInput([dmel]).length).toBe(130);
    expect(firstDimension(Uint8Array.of(254, 4, 2, 130, 1, 80))).toBe(130);
    expect(firstDimension(Uint8Array.of(0, 1, 0xc0, 0x84, 0x3d))).toBe(1_000_000);
    const bad: [number[], RegExp][] = [
      [[], /empty/],
      [[254], /truncated/],
      [[4], /truncated/],
      [[4, 1], /truncated/],
      [[4, 2, 5], /truncated/],
      [[4, 1, 0x80], /truncated/],
      [[8, 1, 1], /unknown element type 8/],
      [[4, 0], /no dimensions/],
      [[4, 1, ...Array<number>(9).fill(0xff), 1], /beyond 2\^53/],
      [[4, ...Array<number>(11).fill(0x80)], /more than ten bytes/],
    ];
    for (const [bytes, problem] of bad)
      expect(refusal(() => firstDimension(Uint8Array.from(bytes))).problem).toMatch(problem);
  });
});
