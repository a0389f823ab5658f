/** Which sessions stay open if not all fit. */
import { expect, it } from "vitest";
import { SessionPool, type SessionSource } from "./session-pool.ts";

/** A pool for sessions that record their opening and closing. */
function journalled(capacityBytes: number) {
  const journal: string[] = [];
  const pool = new SessionPool<{ name: string; release: () => Promise<void> }>(capacityBytes);
  const add = (name: string, bytes: number, openingBytes = bytes): SessionSource<{ name: string }> =>
    pool.add({
      bytes,
      openingBytes,
      open: async () => {
        journal.push(`open ${name}`);
        return { name, release: async () => void journal.push(`release ${name}`) };
      },
    });
  return { journal, add };
}

it("releases the longest unused one before it opens another, and opens it again when it is wanted", async () => {
  const { journal, add } = journalled(20);
  const [a, b, c] = [add("a", 10), add("b", 10), add("c", 10)];
  for (const source of [a, b, a, c]) await source.session();
  expect(journal).toEqual(["open a", "open b", "release b", "open c"]);
  expect((await b.session()).name).toBe("b");
  expect(journal.slice(4)).toEqual(["release a", "open b"]);
});

it("counts what opening takes for a moment, and opens one that is too large for the pool alone", async () => {
  const { journal, add } = journalled(30);
  const [a, b, large] = [add("a", 10), add("b", 10, 25), add("large", 40)];
  await a.session();
  await b.session();
  expect(journal).toEqual(["open a", "release a", "open b"]);
  await large.session();
  expect(journal.slice(3)).toEqual(["release b", "open large"]);
});

it("releases none for one that fits exactly", async () => {
  const { journal, add } = journalled(35);
  const [a, b, c] = [add("a", 10), add("b", 10, 25), add("c", 16)];
  for (const source of [a, b]) await source.session();
  expect(journal).toEqual(["open a", "open b"]);
  await c.session(); // one byte too many
  expect(journal.slice(2)).toEqual(["release a", "open c"]);
});

it("releases once", async () => {
  const { journal, add } = journalled(30);
  const a = add("a", 10);
  await a.session();
  await a.release();
  await a.release();
  expect(journal).toEqual(["open a", "release a"]);
});
