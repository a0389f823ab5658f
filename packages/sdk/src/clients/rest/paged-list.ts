/**
 * A listing that can be awaited for one page or iterated over all of them: `await` gives the page that was asked for,
 * `for await` fetches page after page by itself.
 */

/** Where a page begins and how long it is. */
export interface PageRequest {
  readonly limit: number;
  readonly offset: number;
}

export interface PageSource<Page, Item> {
  readonly fetch: (request: PageRequest) => Promise<Page>;
  readonly items: (page: Page) => readonly Item[];
  /** How many items there are in all, where the server says so. */
  readonly total: (page: Page) => number | undefined;
  /** What was asked for; iteration uses its limit as the size of a page. */
  readonly first: PageRequest;
}

/** One page when awaited, every item when iterated. Nothing is fetched before either. */
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

  /** As a promise's `catch`, of the page. */
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
      // A short page is the last one; so is an empty one, whatever the server counts.
      const ended = all === undefined ? found.length < first.limit : offset >= all;
      if (found.length === 0 || ended) return;
      page = await fetch({ limit: first.limit, offset });
    }
  }
}
