/**
 * Optimizers: which one a model is created with, and its settings for one step. The settings of AdamW are `AdamParams`; an optimizer
 * that this version does not know is passed through by its `type`. Newer than 0.25.
 */
import { float, literal, withDefault } from "../schema/fields.ts";
import type { JsonValue } from "../schema/json.ts";
import { type InputOf, message } from "../schema/message.ts";
import type { AdamParams } from "./training.ts";

/** AdamW, the default optimizer of a model. */
export interface AdamOptimizerConfig {
  readonly type: "adamw";
}
export const AdamOptimizerConfig = message<AdamOptimizerConfig, "type">("AdamOptimizerConfig", {
  type: literal("adamw"),
});

/** Dimuon. */
export interface DimuonOptimizerConfig {
  readonly type: "dimuon";
  readonly version: 1;
}
export const DimuonOptimizerConfig = message<DimuonOptimizerConfig, "type" | "version">("DimuonOptimizerConfig", {
  type: literal("dimuon"),
  version: literal(1),
});

/** Any other optimizer, with its type and its fields. */
export interface OptimizerConfigBase {
  readonly type: string;
  readonly [field: string]: JsonValue;
}
/** The optimizer that a model is created with. */
export type OptimizerConfig = AdamOptimizerConfig | DimuonOptimizerConfig | OptimizerConfigBase;

/** Dimuon's settings for one step. */
export interface DimuonParams {
  readonly type: "dimuon";
  readonly learningRate: number;
  /** Largest norm of the whole gradient; 0 switches clipping off. @defaultValue 0 */
  readonly gradClipNorm: number;
  /** @defaultValue 0.9 */
  readonly beta1: number;
}
export const DimuonParams = message<DimuonParams, "type" | "gradClipNorm" | "beta1">(
  "DimuonParams",
  {
    type: literal("dimuon"),
    learningRate: float(),
    gradClipNorm: withDefault(float(), 0),
    beta1: withDefault(float(), 0.9),
  },
  {
    check: (value, fail) => {
      for (const key of ["learningRate", "gradClipNorm"] as const) {
        if (!(value[key] >= 0)) fail(key, `must not be negative, got ${value[key]}`);
      }
      if (!(value.beta1 >= 0 && value.beta1 < 1)) fail("beta1", `must be at least 0 and below 1, got ${value.beta1}`);
    },
  },
);

/** {@link DimuonParams} with its defaults optional. */
export type DimuonParamsInput = InputOf<DimuonParams, "gradClipNorm" | "beta1">;

/** Encodes the settings of an optimizer other than AdamW. @throws {@link InvalidInputError} naming the field. */
export function encodeOptimParams(params: DimuonParamsInput | OptimParamsBase): Readonly<Record<string, JsonValue>> {
  if (params.type === "dimuon") return DimuonParams.encode(params as DimuonParamsInput) as Record<string, JsonValue>;
  return { ...(params as OptimParamsBase) };
}

/** Settings of any other optimizer for one step, in wire spelling. */
export interface OptimParamsBase {
  readonly type: string;
  readonly [field: string]: JsonValue;
}
/** Settings of an optimizer for one step. */
export type OptimParams = AdamParams | DimuonParams | OptimParamsBase;
