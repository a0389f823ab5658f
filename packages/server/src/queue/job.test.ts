/** A folder whose marker is being removed is not collected at the same time. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { newFolderId } from "../store/files/file-store.ts";
import { openStore } from "../store/store.ts";
import { addFiles } from "../store/tables/models.ts";
import { markOwned, type QueueContext } from "./job.ts";

test("a folder is not collected while its marker is being removed, and is afterwards", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "tinklet-job-"));
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }));
  const store = await openStore({ dataDir });
  const id = newFolderId();
  await store.files.writeFolder(id, [{ name: "x", parts: [] }]);
  await store.db.write((sql) => addFiles(sql, id, 0, 1)); // its checkpoint was deleted at once: no row refers to it
  const marked = markOwned({ store } as QueueContext, id);
  expect(await store.collect()).toBe(0);
  await marked;
  expect(await store.files.listFolders()).toEqual([{ id, unowned: false }]);
  expect(await store.collect()).toBe(1);
  await store.close();
});
