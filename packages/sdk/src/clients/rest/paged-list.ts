/**
 * A listing that can be awaited or iterated: `await` returns the requested page, `for await` fetches all pages.
 */

/** Offset and size of a page. */
export interface PageRequest {
  readonly limit: number;
  readonly offset: number;
}

export interface PageSource<Page, Item> {
  readonly fetch: (request: PageRequest) => Promise<Page>;
  readonly items: (page: Page) => readonly Item[];
  /** Total number of items, if the server reports it. */
  readonly total: (page: Page) => number | undefined;
  /** The requested page; iteration uses its limit as page size. */
  readonly first: PageRequest;
}

/** Returns one page when awaited and every item when iterated. Sends no request before that. */
export class PagedList<Page, Item> implements PromiseLike<Page>, AsyncIterable<Item> {
  readonly #source: PageSource<Page, Item>;
  #page: Promise<Page> | undefined;

  constructor(source: PageSource<Page, Item>) {
    this.#source = source;
  }

  #first(): Promise<Page> {
    this.#page ??= this.#source.fetch(this.#source.first);
    return this.#page;
  }

  // biome-ignore lint/suspicious/noThenProperty: a listing is awaited
  then<A = Page, B = never>(
    onPage?: ((page: Page) => A | PromiseLike<A>) | null,
    onError?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#first().then(onPage, onError);
  }

  /** Like `Promise.prototype.catch`, for the page. */
  catch<B = never>(onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Page | B> {
    return this.then(undefined, onError);
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Item> {
    const { fetch, items, total, first } = this.#source;
    let page = await this.#first();
    for (let offset = first.offset; ; ) {
      const found = items(page);
      yield* found;
      offset += found.length;
      const all = total(page);
      // A short or empty page is the last one, even if the server's total is larger.
      const ended = all === undefined ? found.length < first.limit : offset >= all;
      if (found.length === 0 || ended) return;
      page = await fetch({ limit: first.limit, offset });
    }
  }
}
