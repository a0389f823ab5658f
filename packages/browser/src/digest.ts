/** A digest that tells a retry of a request from another request with the same number. Not for input that an attacker chooses. */
import { stringifyJson } from "@tinklet/wire";

/**
 * The digest of a JSON body without some of its fields, which may differ between a request and its retry.
 * @param wire - the parsed body
 */
export function digestWithout(kind: string, wire: object, ignored: readonly string[]): string {
  const kept = Object.entries(wire).filter(([key]) => !ignored.includes(key));
  return digestOf(kind, new TextEncoder().encode(stringifyJson(Object.fromEntries(kept))));
}

/** FNV-1a over the kind and the bytes of a request, in two halves with different seeds; a client repeats the same bytes. */
export function digestOf(kind: string, bytes: Uint8Array): string {
  const half = (seed: number): number => {
    let hash = seed;
    for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193);
    return hash >>> 0;
  };
  return `${kind} ${bytes.byteLength} ${half(0x811c9dc5)} ${half(0x9747b28c)}`;
}
