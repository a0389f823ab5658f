/**
 * Loads Node's built-in modules through `process.getBuiltinModule`, not by imports, so that bundlers for browsers have nothing to
 * resolve. Works in Node, Bun and Deno; throws elsewhere. Only `*.node.ts` files call it.
 */
import { TinkerError } from "@tinklet/wire/errors";

interface Host {
  readonly process?: { getBuiltinModule?(id: string): unknown };
}

/** Whether Node's built-in modules are available; false in browsers. */
export const hasNodeBuiltins = (): boolean => (globalThis as Host).process?.getBuiltinModule !== undefined;

/** A built-in module of Node: `nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises")`. */
export function nodeBuiltin<T>(id: `node:${string}`): T {
  const found = (globalThis as Host).process?.getBuiltinModule?.(id);
  if (found === undefined) {
    throw new TinkerError(`${id} is not available here`, {
      code: "not_on_this_runtime",
      hint: "This feature needs Node 20.19 or later, Bun or Deno. In a browser, pass the value as an option or call your own server.",
    });
  }
  return found as T;
}
