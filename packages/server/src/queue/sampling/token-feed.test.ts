import { FakeClock } from "@tinklet/wire/testing";
import { describe, expect, it } from "vitest";
import { type FedToken, TokenFeeds } from "./token-feed.ts";

const feeds = () => new TokenFeeds(new FakeClock());

describe("TokenFeeds", () => {
  it("returns the tokens after the reader's position, and whether the feed is complete", async () => {
    const all = feeds();
    all.open(1);
    all.begin(1);
    all.add(1, [0, 7]);
    all.add(1, [0, 8]);
    expect(await all.read(1, 0, 1000)).toEqual({
      tokens: [
        [0, 7],
        [0, 8],
      ],
      done: false,
    });
    all.end(1);
    expect(await all.read(1, 1, 1000)).toEqual({ tokens: [[0, 8]], done: true });
    expect(await all.read(1, 2, 1000)).toEqual({ tokens: [], done: true });
  });

  it("a read ends with the next token, the end of the feed, its timeout, or its signal", async () => {
    const clock = new FakeClock();
    const all = new TokenFeeds(clock);
    all.open(1);
    const next = all.read(1, 0, 1000);
    all.add(1, [0, 7]);
    expect(await next).toEqual({ tokens: [[0, 7]], done: false });
    const late = all.read(1, 1, 1000);
    await clock.advance(1000);
    expect(await late).toEqual({ tokens: [], done: false });
    const gone = new AbortController();
    const left = all.read(1, 1, 1000, gone.signal);
    gone.abort();
    expect(await left).toEqual({ tokens: [], done: false });
    const last = all.read(1, 1, 1000);
    all.end(1);
    expect(await last).toEqual({ tokens: [], done: true });
  });

  it("a reader continues when the sample restarts with another interleaving of its sequences", async () => {
    const all = feeds();
    all.open(1);
    all.begin(1);
    for (const token of [
      [0, 7],
      [1, 17],
      [0, 8],
    ] as FedToken[])
      all.add(1, token);
    const first = (await all.read(1, 0, 1000))!.tokens;
    all.begin(1); // the engine died
    expect((await all.read(1, 0, 1000))!.tokens).toEqual(first); // a new reader gets all tokens
    const waiting = all.read(1, first.length, 1000);
    for (const token of [
      [1, 17],
      [1, 18],
      [0, 7],
      [0, 8],
      [0, 9],
    ] as FedToken[])
      all.add(1, token);
    all.end(1);
    const rest = [...(await waiting)!.tokens];
    rest.push(...(await all.read(1, first.length + rest.length, 1000))!.tokens);
    expect(rest).toEqual([
      [1, 18],
      [0, 9],
    ]);
  });

  it("drops the oldest feed above the limit of tokens, and ends its reads", async () => {
    const all = new TokenFeeds(new FakeClock(), { feeds: 10, tokens: 100 });
    all.open(1);
    all.open(2);
    for (let i = 0; i < 60; i++) all.add(1, [0, i]);
    const waiting = all.read(1, 60, 1000);
    for (let i = 0; i < 60; i++) all.add(2, [0, i]);
    expect((await waiting)?.tokens).toEqual([]);
    expect(await all.read(1, 0, 1000)).toBeUndefined();
    expect((await all.read(2, 0, 1000))?.tokens).toHaveLength(60);
    for (let i = 60; i < 200; i++) all.add(2, [0, i]);
    expect(await all.read(2, 0, 1000)).toBeUndefined();
    all.open(3); // the tokens of dropped feeds are no longer counted
    for (let i = 0; i < 100; i++) all.add(3, [0, i]);
    expect((await all.read(3, 0, 1000))?.tokens).toHaveLength(100);
  });

  it("ignores samples without a feed, and drops the oldest feed above the limit of feeds", async () => {
    const all = feeds();
    all.add(9, [0, 1]);
    expect(await all.read(9, 0, 1000)).toBeUndefined();
    for (let id = 0; id < 300; id++) all.open(id);
    expect(await all.read(0, 0, 1000)).toBeUndefined();
    const waiting = all.read(299, 0, 1000);
    all.close();
    expect(await waiting).toEqual({ tokens: [], done: false });
  });
});
