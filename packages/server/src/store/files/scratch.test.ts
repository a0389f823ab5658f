import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { openStore } from "../store.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "tinklet-scratch-test-"));
  return () => rm(root, { recursive: true, force: true });
});

test("the next start removes the scratch folders of a killed server", async () => {
  const dataDir = join(root, "data");
  const store = await openStore({ dataDir });
  const scratch = await store.files.makeScratch();
  await writeFile(join(scratch, "adapter_model.safetensors"), "half");
  const copy = join(root, "copy");
  await cp(dataDir, copy, { recursive: true }); // the state after a kill
  await store.close();
  const left = join(copy, "tmp", basename(scratch));
  expect(existsSync(left)).toBe(true);
  await (await openStore({ dataDir: copy })).close();
  expect(existsSync(left)).toBe(false);
});

test("without a data folder only old scratch folders of ended processes are removed", async () => {
  vi.stubEnv("TMPDIR", root);
  vi.stubEnv("TEMP", root);
  onTestFinished(() => void vi.unstubAllEnvs());
  const ended = spawnSync(process.execPath, ["--version"]).pid;
  const old = new Date(Date.now() - 2 * 3_600_000);
  const names = {
    ended: `tinklet-scratch-${ended}-abc123`,
    young: `tinklet-scratch-${ended}-def456`,
    alive: `tinklet-scratch-${process.pid}-abc123`,
    foreign: "tinklet-import-abc123",
  };
  for (const [kind, name] of Object.entries(names)) {
    await mkdir(join(root, name));
    await writeFile(join(root, name, "file"), "x");
    if (kind !== "young") await utimes(join(root, name), old, old);
  }
  const store = await openStore();
  const there = Object.entries(names).filter(([, name]) => existsSync(join(root, name)));
  expect(there.map(([kind]) => kind)).toEqual(["young", "alive", "foreign"]);
  const scratch = await store.files.makeScratch();
  expect(basename(scratch)).toMatch(new RegExp(`^tinklet-scratch-${process.pid}-`));
  await store.close();
});
