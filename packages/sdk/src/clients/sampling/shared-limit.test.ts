// Processes of one machine share a limit of concurrent samples. Each SharedLimit here is what one process has; they meet on a real socket.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Release } from "../../transport/byte-budget.ts";
import { openSharedLimit, type SharedLimit } from "./shared-limit.node.ts";

const account = { baseUrl: "http://stub", credential: "tml-key" };
const open: { close(): void }[] = [];
const folders: string[] = [];
const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "tl-"));
  folders.push(folder);
  return folder;
};
afterEach(() => {
  for (const one of open.splice(0)) one.close();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

async function member(folder: string, maxSamples: number, of = account): Promise<SharedLimit> {
  const limit = await openSharedLimit({ maxSamples, folder }, of, { takeoverMs: 20, ownershipMs: 20 });
  open.push(limit);
  return limit;
}

/** Holds slots until the next turn, and notes the most that were held at the same time. */
class Work {
  now = 0;
  most = 0;
  done = 0;
  async run(limit: SharedLimit): Promise<void> {
    const release = await limit.acquire();
    this.now++;
    this.most = Math.max(this.most, this.now);
    await new Promise((resolve) => setImmediate(resolve));
    this.now--;
    this.done++;
    release();
  }
}

describe.skipIf(process.platform === "win32")("SharedLimit", () => {
  it("never gives out more slots than the limit over all processes, and every call gets one", async () => {
    const folder = newFolder();
    const members = await Promise.all(Array.from({ length: 8 }, () => member(folder, 5)));
    expect(members.filter(({ isListening }) => isListening)).toHaveLength(1);
    const work = new Work();
    await Promise.all(members.flatMap((limit) => Array.from({ length: 20 }, () => work.run(limit))));
    expect(work).toMatchObject({ done: 160, most: 5, now: 0 });
  });

  it("gives slots in turns, so that a process with many calls does not keep out one with few", async () => {
    const folder = newFolder();
    const [busy, small] = [await member(folder, 1), await member(folder, 1)];
    const order: string[] = [];
    const first = await busy.acquire();
    const note = (name: string) => (release: Release) => {
      order.push(name);
      release();
    };
    const calls = Array.from({ length: 10 }, () => busy.acquire().then(note("busy")));
    const other = small.acquire().then(note("small"));
    await Promise.all([settled(busy), settled(small)]);
    first();
    await Promise.all([...calls, other]);
    expect(order.indexOf("small")).toBeLessThanOrEqual(1);
  });

  it("frees the slots of a process that ends, and another process takes over when the listening one ends", async () => {
    const folder = newFolder();
    const [first, second, third] = [await member(folder, 2), await member(folder, 2), await member(folder, 2)];
    expect(first.isListening).toBe(true);
    const held: Release[] = [await first.acquire(), await second.acquire()];
    const waits = third.acquire();
    first.close(); // with one slot, as a killed process would
    held.push(await waits);
    expect([second, third].filter(({ isListening }) => isListening)).toHaveLength(1);
    // The new one knows of the slots that were held before.
    let isEntered = false;
    const fourth = second.acquire().then((release) => {
      isEntered = true;
      release();
    });
    await settled(second);
    await settled(third);
    expect(isEntered).toBe(false);
    held[1]!();
    await fourth;
  });

  it("takes an aborted call out of the line and gives its slot to the next one", async () => {
    const folder = newFolder();
    const limit = await member(folder, 1);
    const release = await limit.acquire();
    const stop = new AbortController();
    const aborted = limit.acquire(stop.signal);
    const next = limit.acquire();
    stop.abort(new Error("no longer wanted"));
    await expect(aborted).rejects.toThrow("no longer wanted");
    release();
    (await next)();
    expect(limit).toMatchObject({ waiting: 0 });
  });

  it("separates accounts and servers, and takes the lowest limit of those that share", async () => {
    const folder = newFolder();
    const [low, high] = [await member(folder, 1), await member(folder, 50)];
    const other = await member(folder, 1, { ...account, credential: "tml-other" });
    const work = new Work();
    const release = await other.acquire();
    await Promise.all([low, high].flatMap((limit) => Array.from({ length: 5 }, () => work.run(limit))));
    expect(work.most).toBe(1);
    release();
  });

  it("replaces the socket and the lock that a killed process left", async () => {
    const folder = newFolder();
    const first = await member(folder, 1);
    const [name] = readdirSync(folder).filter((file) => file.endsWith(".sock"));
    first.close();
    if (!existsSync(join(folder, name!))) writeFileSync(join(folder, name!), "");
    mkdirSync(join(folder, `${name}.lock`));
    utimesSync(join(folder, `${name}.lock`), new Date(0), new Date(0));
    (await (await member(folder, 1)).acquire())();
  });

  it("a process whose socket was replaced steps down, and leaves the file of the one that replaced it", async () => {
    const folder = newFolder();
    const first = await member(folder, 1);
    const socket = join(folder, readdirSync(folder)[0]!);
    unlinkSync(socket);
    const second = await member(folder, 1);
    expect(second.isListening).toBe(true);
    await vi.waitFor(() => expect(first.isListening).toBe(false));
    await settled(first);
    expect(existsSync(socket)).toBe(true);
    expect(second.isListening).toBe(true);
    const third = await member(folder, 1);
    expect(third.isListening).toBe(false);
    second.close();
    expect(existsSync(socket)).toBe(false);
  });

  it("continues when its folder was deleted, as cleaners of temporary folders do", async () => {
    const folder = newFolder();
    const [first, second] = [await member(folder, 1), await member(folder, 1)];
    rmSync(folder, { recursive: true });
    first.close();
    (await second.acquire())();
    expect(second.isListening).toBe(true);
  });

  it("fails the calls that wait when the socket cannot be used any more, and those after the end", async () => {
    const folder = newFolder();
    const [first, second] = [await member(folder, 1), await member(folder, 1)];
    const release = await first.acquire();
    const waits = second.acquire();
    renameSync(folder, `${folder}-moved`);
    folders.push(`${folder}-moved`);
    writeFileSync(folder, "");
    first.close();
    release();
    await expect(waits).rejects.toMatchObject({ code: "shared_limit" });
    await expect(second.acquire()).rejects.toMatchObject({ code: "shared_limit" });
    rmSync(folder);
    (await second.acquire())();
    second.close();
    await expect(second.acquire()).rejects.toMatchObject({ code: "closed" });
  });

  it("disconnects a peer that sends anything but its few words, and continues", async () => {
    const folder = newFolder();
    const limit = await member(folder, 1);
    const [name] = readdirSync(folder).filter((file) => file.endsWith(".sock"));
    for (const text of ["x".repeat(10_000), "w -1\n", "w 1e99\n", "h 1 2 3 4\n", "GET / HTTP/1.1\n"]) {
      const socket = connect(join(folder, name!));
      socket.on("error", () => {});
      const over = new Promise((resolve) => socket.on("close", resolve));
      socket.write(text);
      await over;
    }
    (await limit.acquire())();
  });

  it.each([0, 1.5, Number.NaN, 2_000_000, "3"])("refuses maxSamples %s", async (maxSamples) => {
    await expect(openSharedLimit({ maxSamples: maxSamples as number }, account)).rejects.toThrow(
      "sharedLimits.maxSamples",
    );
  });

  it("refuses a folder that others can read, and a path that is too long for a socket", async () => {
    const folder = newFolder();
    chmodSync(folder, 0o755);
    await expect(openSharedLimit({ maxSamples: 1, folder }, account)).rejects.toThrow("mode 700");
    await expect(openSharedLimit({ maxSamples: 1, folder: join(folder, "x".repeat(120)) }, account)).rejects.toThrow(
      "the limit is 103",
    );
  });
});

/** Lets everything arrive that is on its way. */
async function settled(limit: SharedLimit): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(limit).toBeDefined();
}
