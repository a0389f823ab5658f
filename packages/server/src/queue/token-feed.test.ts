import { describe, expect, it } from "vitest";
import { FakeClock } from "../../../tinklet/src/clock.ts";
import { TokenFeeds } from "./token-feed.ts";

const feeds = () => new TokenFeeds(new FakeClock());

describe("TokenFeeds", () => {
  it("hands out tokens from where the reader is, and says when there are no more", async () => {
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

  it("lets a reader wait for the next token, the end, its own patience, or its signal", async () => {
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

  it("a sample that begins again does not repeat what a reader has", async () => {
    const all = feeds();
    all.open(1);
    all.add(1, [0, 7]);
    all.begin(1);
    const waiting = all.read(1, 1, 1000);
    all.add(1, [0, 7]); // the same seed draws the same token
    all.add(1, [0, 8]);
    all.end(1);
    expect((await waiting)?.tokens).not.toContainEqual([0, 7]);
  });

  it("knows nothing of samples that nobody watches, and forgets the oldest", async () => {
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
