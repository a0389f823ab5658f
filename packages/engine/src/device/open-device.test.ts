/** The choice of a device, with made-up devices. */
import { expect, it } from "vitest";
import { DeviceError } from "../errors.ts";
import type { DeviceChoice } from "../types.ts";
import type { FoundDevice } from "./find-devices.ts";
import { openDevice } from "./open-device.ts";
import type { OrtDevice } from "./ort-device.ts";

const cuda: FoundDevice = { kind: "cuda", name: "NVIDIA H200", isHardware: true };
const noCuda: FoundDevice = { kind: "cuda", isHardware: false, reason: "no NVIDIA driver", hint: "install the driver" };
const webgpu: FoundDevice = { kind: "webgpu", name: "AMD GPU (Vulkan)", isHardware: true };
const software: FoundDevice = { kind: "webgpu", name: "software driver lavapipe", isHardware: false };

/** Which device is opened, and the notices. @param broken - the kinds that cannot be opened */
const choose = async (
  choice: DeviceChoice,
  found: readonly FoundDevice[],
  broken: readonly string[] = [],
): Promise<{ name: string | undefined; notices: string[] }> => {
  const notices: string[] = [];
  const device = await openDevice(choice, {
    threads: 1,
    notice: (message) => notices.push(message),
    findDevices: () => Promise.resolve(found),
    open: ({ kind, name }) =>
      broken.includes(kind)
        ? Promise.reject(new Error("the driver fails\nat x"))
        : Promise.resolve({ name } as OrtDevice),
  });
  return { name: device?.name, notices };
};

it.each([
  ["cuda before webgpu", [cuda, webgpu], [], "NVIDIA H200"],
  ["webgpu without cuda", [noCuda, webgpu], [], "AMD GPU (Vulkan)"],
  ["webgpu if cuda cannot be opened", [cuda, webgpu], ["cuda"], "AMD GPU (Vulkan)"],
] as const)("auto takes %s", async (_, found, broken, name) => {
  expect(await choose("auto", found, broken)).toEqual({ name, notices: [] });
});

it.each([
  ["software", [noCuda, software], [], /CUDA: no NVIDIA driver; WebGPU: software driver lavapipe is not known to be/],
  ["what fails", [cuda, webgpu], ["cuda", "webgpu"], /CUDA: the driver fails; WebGPU: the driver fails\)/],
] as const)(
  "auto takes the CPU instead of %s, with a notice that has the reasons",
  async (_, found, broken, message) => {
    const { name, notices } = await choose("auto", found, broken);
    expect(name).toBeUndefined();
    expect(notices).toEqual([expect.stringMatching(message)]);
    expect(notices[0]).toMatch(/running on the CPU$/);
  },
);

it("a device requested by name is opened, also in software, or refused with the reason and the fix", async () => {
  expect((await choose("webgpu", [cuda, webgpu])).name).toBe("AMD GPU (Vulkan)");
  const { name, notices } = await choose("webgpu", [cuda, software]);
  expect(name).toBe("software driver lavapipe");
  expect(notices[0]).toMatch(/not known to be hardware/);
  const refused = choose("cuda", [noCuda, webgpu]);
  await expect(refused).rejects.toThrow(DeviceError);
  await expect(refused).rejects.toMatchObject({
    code: "no_device",
    message: expect.stringContaining("device cuda cannot be used: no NVIDIA driver"),
    hint: "install the driver",
  });
  await expect(choose("cuda", [cuda, webgpu], ["cuda"])).rejects.toThrow(
    "device cuda cannot be used: the driver fails",
  );
});

it("cpu examines nothing", async () => {
  const device = await openDevice("cpu", {
    threads: 1,
    notice: () => {},
    findDevices: () => Promise.reject(new Error("examined")),
  });
  expect(device).toBeUndefined();
});

it("a reduced precision needs CUDA", async () => {
  const options = { threads: 1, precision: "tf32", findDevices: () => Promise.resolve([noCuda, webgpu]) } as const;
  const notices: string[] = [];
  const notice = (message: string): void => void notices.push(message);
  await expect(openDevice("webgpu", { ...options, notice })).rejects.toMatchObject({
    code: "no_device",
    message: expect.stringContaining("precision tf32 needs CUDA; webgpu computes in float32"),
  });
  expect(await openDevice("auto", { ...options, notice })).toBeUndefined();
  expect(notices).toEqual([expect.stringContaining("WebGPU: precision tf32 needs CUDA")]);
});
