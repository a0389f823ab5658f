/** The device that a data folder was used on, and the device that a server names. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DeviceInfo, Engine } from "@tinklet/engine";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Log } from "./log.ts";
import { createServer, type TinkletServer } from "./server.ts";
import { fakeEngine } from "./testing/fake-engine.ts";

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "device-"));
});
afterEach(() => rm(dataDir, { recursive: true }));

const events: string[] = [];
const notices: string[] = [];
const log = {
  info: () => {},
  error: () => {},
  debug: () => {},
  warn: (event: string) => events.push(event),
} as never as Log;
const engineOn = (device: DeviceInfo | undefined): Engine => {
  const engine = fakeEngine();
  const info = { ...engine.info, ...(device && { device }) };
  return Object.create(engine, { info: { value: info } }) as Engine;
};
const openOn = (...devices: readonly (DeviceInfo | undefined)[]): Promise<TinkletServer> =>
  createServer({
    dataDir,
    log,
    models: devices.map((device, i) => ({
      name: `model-${i}`,
      open: () => Promise.resolve(engineOn(device)),
    })) as never,
    onNotice: (message) => notices.push(message),
  });
const h200: DeviceInfo = { kind: "cuda", name: "NVIDIA H200", precision: "float32", memoryBytes: 127.8e9 };

test("names its devices, and warns when a folder was used on another kind of device", async () => {
  const names: string[] = [];
  for (const devices of [[undefined], [undefined], [h200], [h200, undefined], [undefined]]) {
    const server = await openOn(...devices);
    names.push(server.device);
    await server.close();
  }
  const [cpu, gpu] = ["CPU", "NVIDIA H200 (cuda, 127.8 GB)"];
  expect(names).toEqual([cpu, cpu, gpu, `${gpu}, ${cpu}`, cpu]);
  expect(events.filter((event) => event === "device.changed")).toHaveLength(3);
  expect(notices.map((notice) => notice.split(":")[0])).toEqual([
    "this data folder was last used on cpu and now runs on cuda",
    "this data folder was last used on cuda and now runs on cpu+cuda",
    "this data folder was last used on cpu+cuda and now runs on cpu",
  ]);
  expect(notices[0]).toMatch(/may differ in their last bits/);
});
