/** The gradient of one pass, added up over its runs and given to the adapter when all have succeeded: in a host array, or on a device. */
import type { Adapter } from "../adapter/adapter.ts";
import type { DeviceValue } from "../runtime/device.ts";
import type { DeviceAdapters } from "./device-adapters.ts";

interface GradientSum {
  /** Gives the sum to the adapter. */
  commit(): void | Promise<void>;
  /** Forgets what was added and not committed. */
  discard(): void;
}

export interface HostGradient extends GradientSum {
  /** Takes the array over. */
  add(part: Float32Array): void;
}

export interface DeviceGradient extends GradientSum {
  /** Takes the value over. */
  add(part: DeviceValue): Promise<void>;
}

/** In the run's own array: what was accumulated before must survive a failure, and usually there is nothing to add. */
export const hostGradient = (adapter: Adapter): HostGradient => {
  let sum = adapter.gradient;
  return {
    add: (part) => {
      if (sum) for (let i = 0; i < part.length; i++) part[i]! += sum[i]!;
      sum = part;
    },
    commit: () => {
      if (sum) adapter.gradient = sum;
    },
    discard: () => {
      sum = adapter.gradient;
    },
  };
};

export const deviceGradient = (adapter: Adapter, adapters: DeviceAdapters): DeviceGradient => {
  let sum: DeviceValue | undefined;
  return {
    add: async (part) => {
      sum = await adapters.sum(sum, part);
    },
    commit: async () => {
      if (!sum) return;
      await adapters.accumulate(adapter, sum);
      sum = undefined;
    },
    discard: () => {
      sum?.release();
      sum = undefined;
    },
  };
};
