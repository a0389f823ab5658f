/** Tables of rotary position embeddings: cos and sin of position × frequency, with the frequency scalings of the supported models. */
import type { ModelConfig } from "@tinklet/models/config";

/** Angular frequencies, one per pair of dimensions: θ^(−2i/d), scaled by the configuration's `rope_scaling`. */
export function ropeFrequencies({ headDim, ropeTheta, ropeScaling }: ModelConfig): Float64Array {
  const frequencies = Float64Array.from({ length: headDim / 2 }, (_, i) => ropeTheta ** ((-2 * i) / headDim));
  if (ropeScaling.type === "linear") return frequencies.map((frequency) => frequency / ropeScaling.factor);
  if (ropeScaling.type === "llama3") {
    const { factor, lowFreqFactor, highFreqFactor, originalContextLength } = ropeScaling;
    return frequencies.map((frequency) => {
      const turns = (originalContextLength * frequency) / (2 * Math.PI); // full turns within the original context
      if (turns > highFreqFactor) return frequency;
      if (turns < lowFreqFactor) return frequency / factor;
      const share = (turns - lowFreqFactor) / (highFreqFactor - lowFreqFactor);
      return (1 - share) * (frequency / factor) + share * frequency;
    });
  }
  return frequencies;
}

/** Tables `[positions, headDim / 2]` that grow on demand, because actual sequences are often much shorter than the model's context. */
export class RopeCache {
  readonly #frequencies: Float64Array;
  #positions = 0;
  #cos = new Float32Array(0);
  #sin = new Float32Array(0);

  constructor(config: ModelConfig) {
    this.#frequencies = ropeFrequencies(config);
  }

  /** Tables for at least `positions` positions. */
  tables(positions: number): { cos: Float32Array; sin: Float32Array; dims: readonly [number, number] } {
    const half = this.#frequencies.length;
    if (positions > this.#positions) {
      this.#positions = Math.ceil(Math.max(positions, this.#positions * 2) / 64) * 64;
      this.#cos = new Float32Array(this.#positions * half);
      this.#sin = new Float32Array(this.#positions * half);
      for (let position = 0; position < this.#positions; position++) {
        for (let i = 0; i < half; i++) {
          // transformers multiplies in float32; at large positions the rounding of the angle is significant.
          const angle = Math.fround(position * Math.fround(this.#frequencies[i]!));
          this.#cos[position * half + i] = Math.cos(angle);
          this.#sin[position * half + i] = Math.sin(angle);
        }
      }
    }
    return { cos: this.#cos, sin: this.#sin, dims: [this.#positions, half] };
  }
}
