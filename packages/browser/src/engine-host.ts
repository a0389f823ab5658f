/** The engine of one base model: opened once, and opened again after its worker has ended. */
import type { Engine } from "@tinklet/engine";
import type { TokenizerFiles } from "@tinklet/models/tokenizer";

/** An engine with the files of its tokenizer, as `openEngine` of `@tinklet/engine/browser` returns it. */
export type ServedEngine = Engine & { readonly tokenizerFiles: TokenizerFiles };

/** A base model that a browser server serves. */
export interface BrowserModel {
  /** Its name in the API. */
  readonly name: string;
  /** Opens its engine; called again after the engine's worker has ended. */
  readonly open: () => Promise<ServedEngine>;
}

/** An open engine. Ids of adapters and snapshots are valid for this value only. */
export interface Opened {
  readonly engine: ServedEngine;
}

/** Whether an error says that the engine can compute nothing more: its worker has ended. */
export const isEngineEnd = (error: unknown): boolean => {
  const { code } = error as { readonly code?: unknown };
  return code === "worker_died" || code === "closed";
};

export class EngineHost {
  readonly name: string;
  readonly #open: BrowserModel["open"];
  #opened: Promise<Opened> | undefined;
  #isClosed = false;

  constructor({ name, open }: BrowserModel) {
    this.name = name;
    this.#open = open;
  }

  /** Returns the open engine, and opens one first if needed. A failed attempt is repeated by the next call. */
  opened(): Promise<Opened> {
    if (this.#isClosed) return Promise.reject(new Error("the server was closed"));
    const opening = this.#opened ?? this.#open().then((engine) => ({ engine }));
    if (this.#opened !== opening) {
      this.#opened = opening;
      opening.catch(() => {
        if (this.#opened === opening) this.#opened = undefined;
      });
    }
    return opening;
  }

  /** The engine's worker has ended: the next call opens another one. */
  async lost(opened: Opened): Promise<void> {
    const current = await this.#opened?.catch(() => undefined);
    if (current === opened) this.#opened = undefined;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#opened?.catch(() => undefined))?.engine.close();
  }
}
