/** No answer tells of what a power cut could still undo: what is committed and not yet synced waits, and the event loop does not. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import type { DatabaseFiles } from "../store/database-files.ts";
import { TestServer } from "../testing/test-server.ts";

/** The disk: syncs of the log wait for `opened`, and end as it does. */
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

/** A server whose disk is slow from now on; `asked` resolves when it is first asked to sync. */
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

test("what is committed is told when it is durable, and others are answered meanwhile", async () => {
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

test("a disk that cannot sync refuses what depends on it, with what to do", async () => {
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
