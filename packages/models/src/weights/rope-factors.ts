/**
 * Llama 3's stretched RoPE. GGUF carries the finished divisors of the frequencies as a tensor, Hugging Face the parameters that
 * they are computed from; the parameters are recovered here, and only believed when they give back the same divisors.
 */

import { ConfigError } from "../errors.ts";

interface Llama3Parameters {
  readonly factor: number;
  readonly lowFreqFactor: number;
  readonly highFreqFactor: number;
  readonly originalContext: number;
}

/** The divisor of each of the `headDim / 2` frequencies: 1 for short wavelengths, `factor` for long ones, a ramp between. */
export function llama3Factors(headDim: number, theta: number, parameters: Llama3Parameters): Float64Array {
  const { factor, lowFreqFactor, highFreqFactor, originalContext } = parameters;
  return Float64Array.from({ length: headDim / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * theta ** ((2 * i) / headDim);
    const turns = originalContext / wavelength; // within the context the model was first trained on
    if (turns > highFreqFactor) return 1;
    if (turns < lowFreqFactor) return factor;
    const smooth = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

/** The `rope_scaling` whose divisors are `values`. @throws ConfigError when none of the published settings gives them. */
export function llama3Scaling(
  values: Float32Array,
  headDim: number,
  theta: number,
  file: string,
): Record<string, unknown> {
  const factor = values.reduce((most, value) => Math.max(most, value), 0);
  // Every published Llama 3 has these three; only the factor differs (8 for 3.1, 32 for 3.2).
  const parameters = { factor, lowFreqFactor: 1, highFreqFactor: 4, originalContext: 8192 };
  const expected = llama3Factors(headDim, theta, parameters);
  const agrees =
    expected.length === values.length &&
    expected.every((divisor, i) => Math.abs(divisor - (values[i] as number)) <= 1e-4 * divisor);
  if (!agrees) {
    throw new ConfigError(`${file}: the RoPE factors in rope_freqs.weight are not those of a known Llama 3`, {
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
