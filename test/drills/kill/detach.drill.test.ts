// `serve --detach` killed at seeded steps of its start, and while it runs, always on the same data folder: no command mistakes the record of a killed
// server for a running one, the next start works, and programs find the server that runs.
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { ServiceClient } from "@tinklet/sdk";
import { folderUse } from "@tinklet/sdk/environment";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createRandom } from "../../../packages/engine/src/random.ts";
import { Executable } from "../../integration/cli/executable.ts";

/** Starts, of which half are killed on their way and half while they run: `KILLS=200 npm run drill -- short test/drills/kill`. */
const kills = Number(process.env["KILLS"] ?? 50);
const seed = 1;

const preload = pathToFileURL(fileURLToPath(new URL("./kill-at.mjs", import.meta.url))).href;
let tool: Executable;
let dataDir: string;
let counts: string;
const pids = new Set<number>();
beforeAll(async () => {
  tool = await Executable.build({ server: true });
  dataDir = join(tool.work, "data");
  counts = join(tool.work, "counts");
  mkdirSync(dataDir, { mode: 0o700 });
}, 120_000);
afterAll(() => {
  for (const pid of pids) kill(pid);
  tool?.remove();
});

function kill(pid: number): boolean {
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false; // it has ended
  }
}

/** Starts a server that is killed before a step; undefined: calm. */
async function start(at?: number) {
  const { code, stdout, stderr } = await tool.run(
    ["serve", "--detach", "--port", "0", "--no-studio", "--log", "off", "--data-dir", dataDir, "--json"],
    {
      env: {
        NODE_OPTIONS: `--import ${preload}`,
        TINKLET_KILL_COUNT: counts,
        ...(at === undefined ? {} : { TINKLET_KILL_AT: String(at) }),
      },
    },
  );
  const { pid } = code === 0 ? (JSON.parse(stdout) as { pid: number }) : { pid: undefined };
  if (pid !== undefined) pids.add(pid);
  return { code, stderr, pid };
}

/** Kills a running server, and waits until its process has ended. */
async function killed(pid: number): Promise<void> {
  kill(pid);
  await expect.poll(() => kill(pid), { timeout: 20_000, interval: 20 }).toBe(false);
  pids.delete(pid);
}

const usedBy = async () => (await folderUse(dataDir)).state;

test.skipIf(process.platform === "win32")(
  `${kills} starts and kills leave the folder usable`,
  async () => {
    const calm = await start();
    expect(calm, calm.stderr).toMatchObject({ code: 0 });
    expect((await tool.run(["stop", "--data-dir", dataDir])).code).toBe(0);
    pids.clear();
    const steps = Number(/(\d+) steps/.exec(readFileSync(counts, "utf8"))?.[1]);
    expect(steps).toBeGreaterThan(50); // files, database, port and the line that says that it is ready
    const random = createRandom(seed, "detach");
    let early = 0;
    for (let each = 0; each < kills / 2; each++) {
      const at = 1 + Math.floor(random() * steps);
      const moment = `seed ${seed}, kill ${each}, before step ${at} of ${steps}`;
      const broken = await start(at);
      if (broken.pid === undefined) {
        early++;
        expect([broken.code, broken.stderr], moment).toEqual([
          1,
          expect.stringMatching(/did not start|ended after its start/),
        ]);
      } else await killed(broken.pid); // the step belongs to the end of a server: it was ready before
      expect(["none", "ended"], moment).toContain(await usedBy());
      // every fifth time a command finds no server and opens the folder itself
      if (each % 5 === 0) {
        const listed = await tool.run(["run", "list", "--local", "--data-dir", dataDir]);
        expect([listed.code, listed.stderr], moment).toEqual([0, expect.not.stringContaining("Using tinklet serve")]);
      }
      const next = await start();
      expect([next.code, next.stderr], moment).toEqual([0, expect.anything()]);
      const service = await ServiceClient.local({ dataDir, telemetry: false });
      const use = await folderUse(dataDir);
      expect(use, moment).toMatchObject({ state: "running", pid: next.pid });
      expect(service.baseUrl, moment).toBe((use as { url: string }).url);
      expect((await service.getServerCapabilities()).supportedModels, moment).toHaveLength(1);
      await service.close();
      await killed(next.pid as number);
      expect(await usedBy(), moment).toBe("ended");
    }
    expect(early).toBeGreaterThan(kills / 8);
    expect(existsSync(join(dataDir, "server.json"))).toBe(true); // of the last one killed
    const last = await start();
    expect(last, last.stderr).toMatchObject({ code: 0 });
    expect((await tool.run(["stop", "--data-dir", dataDir])).code).toBe(0);
    pids.clear();
    expect(await usedBy()).toBe("none");
  },
  600_000,
);
