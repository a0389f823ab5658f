/** The gradient of one pass, summed over its runs and added to the adapter when all have succeeded; in a host array or on a device. */
import type { Adapter } from "../adapter/adapter.ts";
import type { DeviceValue } from "../runtime/device.ts";
import type { DeviceAdapters } from "./device-adapters.ts";

interface GradientSum {
  /** Adds the sum to the adapter. */
  commit(): void | Promise<void>;
  /** Drops the sum if it was not committed. */
  discard(): void;
}

export interface HostGradient extends GradientSum {
  /** Takes ownership of the array. */
  add(part: Float32Array): void;
}

export interface DeviceGradient extends GradientSum {
  /** Takes ownership of the value. */
  add(part: DeviceValue): Promise<void>;
}

/**
 * Adds in place into the array of the newest run. The accumulated gradient stays unchanged until `commit`, so a failed pass cannot corrupt it.
 */
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
