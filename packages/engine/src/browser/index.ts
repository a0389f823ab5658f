/** `@tinklet/engine/browser`: the engine in a Web Worker, on WebAssembly. No `node:` imports. */
export * from "../errors.ts";
export type * from "../types.ts";
export { type BrowserEngine, type BrowserEngineOptions, openEngine } from "./open-engine.ts";
