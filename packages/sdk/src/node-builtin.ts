/**
 * How the SDK reaches Node's own modules: through the running process, never by an import, so that a bundler for a browser
 * has nothing to resolve. Works in Node, Bun and Deno; elsewhere it says what is missing. Only `*.node.ts` files call it.
 */
import { TinkerError } from "@tinklet/wire/errors";

interface Host {
  readonly process?: { getBuiltinModule?(id: string): unknown };
}

/** Whether there are any; a browser has none. */
export const hasNodeBuiltins = (): boolean => (globalThis as Host).process?.getBuiltinModule !== undefined;

/** One of Node's own modules: `nodeBuiltin<typeof import("node:fs/promises")>("node:fs/promises")`. */
export function nodeBuiltin<T>(id: `node:${string}`): T {
  const found = (globalThis as Host).process?.getBuiltinModule?.(id);
  if (found === undefined) {
    throw new TinkerError(`${id} is not available here`, {
      code: "not_on_this_runtime",
      hint: "This needs Node 20.19 or later, Bun or Deno; in a browser pass the value in, or call your own server.",
    });
  }
  return found as T;
}
