/** Real file systems that refuse: a read-only one, and a small one that is full. Both need a mount namespace (Linux, `unshare -rm`). */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
// @ts-expect-error a script without types
import { bundle } from "../../fixtures/programs/bundle.mjs";

const mountPoint = () => {
  const path = mkdtempSync(join(tmpdir(), "tinklet-mount-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
};
const canMount = (() => {
  const path = mkdtempSync(join(tmpdir(), "tinklet-mount-"));
  const tried = spawnSync("unshare", ["-rmpf", "mount", "-t", "tmpfs", "tmpfs", path]);
  rmSync(path, { recursive: true, force: true });
  return tried.status === 0;
})();
/** Runs a shell script in namespaces of its own, of mounts and of processes: with it end all that it started. Its output. */
const inNamespace = async (script: string, env: Record<string, string>): Promise<string> => {
  const child: ChildProcess = spawn("unshare", ["-rmpf", "--kill-child", "sh", "-ec", script], {
    env: { ...process.env, NODE: process.execPath, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  const [code] = (await once(child, "close")) as [number];
  expect(code, output).toBe(0);
  return output;
};

test.skipIf(!canMount)(
  "a read-only folder is refused by its name, and nothing in it is lost",
  async () => {
    const folder = mountPoint();
    const main = (await bundle("test/integration/server/folders-main.ts")) as string;
    const script = `mount -t tmpfs tmpfs "$FOLDER"; "$NODE" "$MAIN" use "$FOLDER/data"
    mount -o remount,ro "$FOLDER"; "$NODE" "$MAIN" try "$FOLDER/data"; "$NODE" "$MAIN" try "$FOLDER/new"
    mount -o remount,rw "$FOLDER"; "$NODE" "$MAIN" use "$FOLDER/data"; "$NODE" "$MAIN" try "$FOLDER/data"`;
    const output = await inNamespace(script, { MAIN: main, FOLDER: folder });
    const [made, existing, fresh, kept, started] = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown);
    const refusal = (name: string) => ({
      name: "StoreError",
      code: "read_only",
      message: expect.stringContaining(join(folder, name)),
      untouched: true,
    });
    expect([existing, fresh]).toEqual([refusal("data"), refusal("new")]);
    expect(kept).toBe(made);
    expect(started).toBe("started");
  },
  60_000,
);

test.skipIf(!canMount)(
  "a full disk refuses new work with a reason, keeps what it accepted, and goes on when there is room",
  async () => {
    const [server, load] = [
      await bundle("test/fixtures/programs/fake-main.ts"),
      await bundle("test/integration/server/full-disk-main.ts"),
    ];
    // the address is the server's first line; the load ends with 0 only when every save is there in the end
    const script = `mount -t tmpfs -o size=6m tmpfs "$FOLDER"; mkdir "$FOLDER/data"
      "$NODE" "$SERVER" "{\\"dataDir\\":\\"$FOLDER/data\\"}" > "$FOLDER/address" & server=$!
      tries=0; until [ -s "$FOLDER/address" ]; do
        kill -0 $server || { echo "the server ended without an address"; exit 1; }
        tries=$((tries + 1)); [ $tries -lt 600 ] || { echo "no address after 30 s"; exit 1; }
        sleep 0.05
      done
      "$NODE" "$LOAD" "$(cat "$FOLDER/address")" test/model "$FOLDER"; kill $server; wait $server`;
    const output = await inNamespace(script, { SERVER: server, LOAD: load, FOLDER: mountPoint() });
    expect(output).toMatch(/while full: [1-9]\d* accepted, [1-9]\d* refused: storage_full/);
    expect(output).toContain("all 38 saves are there");
  },
  120_000,
);
