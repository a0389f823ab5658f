/**
 * Llama 3's RoPE scaling. GGUF stores the frequency divisors as a tensor, Hugging Face the parameters from which they are computed. This
 * module recovers the parameters and verifies that they reproduce the divisors.
 */

import { ConfigError } from "../errors.ts";

interface Llama3Parameters {
  readonly factor: number;
  readonly lowFreqFactor: number;
  readonly highFreqFactor: number;
  readonly originalContext: number;
}

/** The divisor of each of the `headDim / 2` frequencies: 1 for short wavelengths, `factor` for long ones, interpolated in between. */
export function llama3Factors(headDim: number, theta: number, parameters: Llama3Parameters): Float64Array {
  const { factor, lowFreqFactor, highFreqFactor, originalContext } = parameters;
  return Float64Array.from({ length: headDim / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * i) / headDim);
    const turns = originalContext / wavelength; // rotations within the original training context
    if (turns > highFreqFactor) return 1;
    if (turns < lowFreqFactor) return factor;
    const smooth = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

/** The `rope_scaling` whose divisors are `values`. @throws ConfigError if no published setting produces them. */
export function llama3Scaling(
  values: Float32Array,
  headDim: number,
  theta: number,
  file: string,
): Record<string, unknown> {
  const factor = values.reduce((most, value) => Math.max(most, value), 0);
  // All published Llama 3 models share these three values; only the factor differs (8 for 3.1, 32 for 3.2).
  const parameters = { factor, lowFreqFactor: 1, highFreqFactor: 4, originalContext: 8192 };
  const expected = llama3Factors(headDim, theta, parameters);
  const agrees =
    expected.length === values.length &&
    expected.every((divisor, i) => Math.abs(divisor - (values[i] as number)) <= 1e-4 * divisor);
  if (!agrees) {
    throw new ConfigError(`${file}: the RoPE factors in rope_freqs.weight do not match a known Llama 3 model`, {
      field: "rope_freqs.weight",
    });
  }
  return {
    rope_type: "llama3",
    factor,
    low_freq_factor: parameters.lowFreqFactor,
    high_freq_factor: parameters.highFreqFactor,
    original_max_position_embeddings: parameters.originalContext,
  };
}
