/** Opens the device of an engine: the requested one or, for `auto`, CUDA, then WebGPU on real hardware, then none (the CPU). */
import { DeviceError } from "../errors.ts";
import { f32 } from "../runtime/runtime.ts";
import type { DeviceChoice, Precision } from "../types.ts";
import { type FoundDevice, findDevices as findOnThisMachine } from "./find-devices.ts";
import { loadOrtApi } from "./koffi-api.ts";
import { findLibrary } from "./library.ts";
import { OrtDevice } from "./ort-device.ts";

/** Options of {@link openDevice}; tests replace the last two. */
export interface OpenDeviceOptions {
  readonly threads: number;
  /** The engine's budget; on a device it limits the device's memory. */
  readonly memoryBudgetBytes?: number | undefined;
  /** @defaultValue "float32" */
  readonly precision?: Precision | undefined;
  readonly notice: (message: string) => void;
  readonly gate?: Int32Array<SharedArrayBuffer> | undefined;
  readonly lock?: Int32Array<SharedArrayBuffer> | undefined;
  readonly findDevices?: () => Promise<readonly FoundDevice[]>;
  readonly open?: (found: FoundDevice, options: OpenDeviceOptions) => Promise<OrtDevice>;
}

/** Share of the free memory that an engine takes by default. */
const defaultShare = 0.9;
/** Default where the system does not report the device's memory. */
const unknownMemoryBytes = 4 * 2 ** 30;

const memoryFor = ({ freeBytes = unknownMemoryBytes }: FoundDevice, budget: number | undefined): number => {
  const available = Math.floor(freeBytes * defaultShare);
  return budget === undefined ? available : Math.min(budget, available);
};

/** Opens a device and moves a value there and back, which loads its driver. */
async function openFound(
  found: FoundDevice,
  { threads, gate, lock, memoryBudgetBytes, precision = "float32" }: OpenDeviceOptions,
) {
  const { path, version } = findLibrary();
  const api = await loadOrtApi(path, gate);
  if (api.version !== version) {
    throw new Error(`onnxruntime's library has version ${api.version}, and its package ${version}`);
  }
  const device = new OrtDevice({
    api,
    kind: found.kind,
    name: found.name ?? found.kind,
    memoryBytes: memoryFor(found, memoryBudgetBytes),
    precision,
    threads,
    ...(lock === undefined ? {} : { lock }),
  });
  try {
    const value = await device.upload(f32(Float32Array.of(1), [1]));
    const { data } = await device.download(value);
    value.release();
    if (data[0] !== 1) throw new Error(`${device.name} returned ${data[0]} instead of 1`);
    return device;
  } catch (error) {
    device.dispose();
    throw error;
  }
}

const labels = { cuda: "CUDA", webgpu: "WebGPU" } as const;
const firstLine = (error: unknown): string => (error as Error).message.split("\n")[0]!;

/**
 * @returns the device; undefined means the CPU.
 * @throws DeviceError `no_device` if the device was requested by name and cannot be used.
 */
export async function openDevice(choice: DeviceChoice, options: OpenDeviceOptions): Promise<OrtDevice | undefined> {
  if (choice === "cpu") return undefined;
  const { notice, precision = "float32", open = openFound, findDevices = findOnThisMachine } = options;
  const found = await findDevices();
  const problems: string[] = [];
  for (const device of found) {
    const isRequested = device.kind === choice;
    if (!isRequested && choice !== "auto") continue;
    if (precision !== "float32" && device.kind !== "cuda") {
      const reason = `precision ${precision} needs CUDA; ${device.kind} computes in float32`;
      if (isRequested) throw noDevice(device.kind, reason, "choose precision float32");
      problems.push(`${labels[device.kind]}: ${reason}`);
      continue;
    }
    if (device.reason !== undefined) {
      if (isRequested) throw noDevice(device.kind, device.reason, device.hint);
      problems.push(`${labels[device.kind]}: ${device.reason}`);
      continue;
    }
    if (!device.isHardware) {
      if (!isRequested) {
        problems.push(`${labels[device.kind]}: ${device.name} is not known to be hardware`);
        continue;
      }
      notice(`${device.name} is not known to be hardware; in software it is slower than the CPU runtime`);
    }
    try {
      return await open(device, options);
    } catch (error) {
      if (isRequested) throw noDevice(device.kind, firstLine(error), undefined, error);
      problems.push(`${labels[device.kind]}: ${firstLine(error)}`);
    }
  }
  notice(`no GPU can be used (${problems.join("; ")}): running on the CPU`);
  return undefined;
}

const noDevice = (kind: FoundDevice["kind"], reason: string, hint?: string, cause?: unknown): DeviceError =>
  new DeviceError("no_device", `device ${kind} cannot be used: ${reason}`, {
    hint: hint ?? "choose device auto or cpu, or run tinklet doctor",
    ...(cause === undefined ? {} : { cause }),
  });
