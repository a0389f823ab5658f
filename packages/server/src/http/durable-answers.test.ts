/** A response is sent only when the writes it acknowledges are synced to disk; the event loop does not wait for the sync. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import type { DatabaseFiles } from "../store/database-files.ts";
import { TestServer } from "../testing/test-server.ts";

/** A disk whose syncs wait for `opened`, and succeed or fail with it. */
const disk = vi.hoisted(() => ({ opened: Promise.resolve(), asked: () => {} }));
vi.mock("../store/database-files.ts", async (original) => {
  const { openDatabaseFiles } = await original<typeof import("../store/database-files.ts")>();
  return {
    openDatabaseFiles: (file: string): DatabaseFiles => {
      const files = openDatabaseFiles(file);
      return {
        ...files,
        syncLog: async () => {
          disk.asked();
          await disk.opened;
          await files.syncLog();
        },
      };
    },
  };
});
afterEach(() => {
  disk.opened = Promise.resolve();
});

/** A server whose disk is slow from now on; `asked` resolves at the first sync. */
async function open() {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-durable-"));
  const server = await TestServer.open({ dataDir });
  let [release, refuse]: [() => void, (error: Error) => void] = [() => {}, () => {}];
  onTestFinished(async () => {
    release();
    await server.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  await server.session();
  const asked = new Promise<void>((resolve) => {
    disk.asked = resolve;
  });
  disk.opened = new Promise((resolve, reject) => {
    [release, refuse] = [resolve, reject];
  });
  disk.opened.catch(() => {});
  return { server, asked, release, refuse };
}

test("a commit is acknowledged when it is durable, and other requests are answered in the meantime", async () => {
  const { server, asked, release } = await open();
  const order: string[] = [];
  const made = server.session().then((id) => {
    order.push("made");
    return id;
  });
  await asked;
  const listed = server.get("sessions").then(({ json }) => {
    order.push("listed");
    return json.sessions as string[];
  });
  expect((await server.get("/healthz")).status).toBe(200);
  for (let turn = 0; turn < 20; turn++) await new Promise((resume) => setImmediate(resume));
  order.push("disk");
  release();
  expect(await listed).toContain(await made);
  expect(order[0]).toBe("disk");
});

test("requests whose commit cannot be synced are refused with the remedy", async () => {
  const { server, asked, refuse } = await open();
  const made = server.post("create_session", { tags: [], user_metadata: {}, sdk_version: "test" });
  await asked;
  refuse(new Error("EIO"));
  const refusal = { status: 503, json: { detail: expect.stringContaining("could not be synced") } };
  expect(await made).toMatchObject(refusal);
  expect(await server.post("create_session", { tags: [], user_metadata: {}, sdk_version: "test" })).toMatchObject(
    refusal,
  );
});
