/** A base model from an address, on the engine in a Web Worker. */
import { type BrowserEngineOptions, openEngine } from "@tinklet/engine/browser";
import type { BrowserModel } from "./engine-host.ts";

/**
 * Describes a base model that a page serves.
 *
 * @param name - its name in the API, for example `tinklet/base`
 * @param folder - address of the folder with its files
 */
export const browserModel = (name: string, folder: string | URL, options: BrowserEngineOptions): BrowserModel => ({
  name,
  open: () => openEngine(folder, { origin: name, ...options }),
});
