/** The bundled model on Node's WebAssembly runtime, for tests that need no browser. */
import { openEngine } from "@tinklet/engine";
import { bundledModel, bundledModelFolder, loadTokenizerFiles } from "@tinklet/models";
import type { BrowserModel, ServedEngine } from "../engine-host.ts";

export interface NodeModel extends BrowserModel {
  /** The engines that were opened, the newest last. */
  readonly opened: ServedEngine[];
}

/** @param wrap - replaces calls of the engine, to inject failures */
export function nodeModel(wrap: (engine: ServedEngine) => ServedEngine = (engine) => engine): NodeModel {
  const opened: ServedEngine[] = [];
  return {
    name: bundledModel,
    opened,
    open: async () => {
      const folder = bundledModelFolder();
      const engine = await openEngine(folder, { runtime: "wasm", inThread: true, threads: 1, onNotice: () => {} });
      const served = wrap({ ...engine, tokenizerFiles: await loadTokenizerFiles(folder) });
      opened.push(served);
      return served;
    },
  };
}
