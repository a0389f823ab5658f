/** Seeds of adapters and samples. */
import { entropy } from "@tinklet/wire/entropy";

/**
 * The engine's seed for a client's. A missing seed is drawn here, when the request is accepted, so that a second run of the request gives
 * the same result. Of a larger seed the lower 52 bits are used.
 */
export function engineSeed(seed: number | bigint | undefined): number {
  if (seed === undefined) return new DataView(Uint8Array.from(entropy.bytes(4)).buffer).getUint32(0) >>> 1;
  return typeof seed === "number" && seed >= 0 && seed < 2 ** 52 ? seed : Number(BigInt.asUintN(52, BigInt(seed)));
}
