/** Supported and unsupported fields of `config.json`. */
import { describe, expect, it } from "vitest";
import { ConfigError } from "../errors.ts";
import { readConfig } from "./read-config.ts";

const base = {
  model_type: "llama",
  vocab_size: 100,
  hidden_size: 64,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  intermediate_size: 128,
};

describe("readConfig", () => {
  it("fills in defaults for fields that older files omit", () => {
    expect(readConfig(base)).toMatchObject({
      kvHeads: 4,
      headDim: 16,
      ropeTheta: 10_000,
      tiedEmbeddings: false,
      eosTokenIds: [],
    });
    expect(readConfig({ ...base, eos_token_id: [3, 4] }).eosTokenIds).toEqual([3, 4]);
  });

  it("uses transformers' default for an absent key, and full heads for a null one", () => {
    const wide = { ...base, hidden_size: 2048, num_attention_heads: 32 };
    expect(readConfig({ ...wide, model_type: "qwen3" })).toMatchObject({
      kvHeads: 32,
      headDim: 128,
      contextLength: 32_768,
    });
    const mistral = { ...wide, model_type: "mistral", sliding_window: null };
    expect(readConfig(mistral)).toMatchObject({ kvHeads: 8, headDim: 64, contextLength: 131_072 });
    expect(readConfig({ ...mistral, num_key_value_heads: null }).kvHeads).toBe(32);
    expect(readConfig(base).contextLength).toBe(2048);
  });

  it("reads the fields specific to each architecture", () => {
    const config = { ...base, num_key_value_heads: 4 };
    expect(readConfig({ ...config, model_type: "qwen2" })).toMatchObject({
      qkvBias: true,
      outputBias: false,
      qkNorm: false,
    });
    expect(readConfig({ ...config, model_type: "qwen3" })).toMatchObject({ qkvBias: false, qkNorm: true });
    expect(readConfig({ ...config, attention_bias: true, mlp_bias: true })).toMatchObject({
      outputBias: true,
      mlpBias: true,
    });
  });

  it("reads both spellings of rope parameters", () => {
    const old = readConfig({ ...base, rope_theta: 5e5, rope_scaling: { type: "linear", factor: 4 } });
    const current = readConfig({ ...base, rope_parameters: { rope_theta: 5e5, rope_type: "linear", factor: 4 } });
    expect(current).toEqual(old);
  });

  it.each([
    ["model_type", { model_type: "gpt2" }],
    ["hidden_act", { hidden_act: "gelu" }],
    ["sliding_window", { model_type: "mistral", sliding_window: 16 }],
    ["sliding_window", { model_type: "mistral" }], // absent, it is 4096 of a context of 131,072
    ["use_sliding_window", { model_type: "qwen2", use_sliding_window: true }],
    ["layer_types", { layer_types: ["full_attention", "sliding_attention"] }],
    ["rope_scaling.rope_type", { rope_scaling: { rope_type: "yarn", factor: 4 } }],
    ["rope_scaling.factor", { rope_scaling: { rope_type: "linear" } }],
    ["quantization_config", { quantization_config: { bits: 4 } }],
    ["num_experts", { num_experts: 8 }],
    ["partial_rotary_factor", { partial_rotary_factor: 0.5 }],
    ["num_key_value_heads", { num_key_value_heads: 3 }],
    ["head_dim", { head_dim: 15 }],
    ["vocab_size", { vocab_size: undefined }],
    ["hidden_size", { hidden_size: -1 }],
  ])("rejects %s and names the field", (field, change) => {
    const error = (() => {
      try {
        return readConfig({ ...base, ...change });
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toMatchObject({ field });
  });
});
