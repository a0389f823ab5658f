/** Classification of native failures by the libraries' messages. */
import { expect, it } from "vitest";
import { explainFailure } from "./failures.ts";
import { OrtFailure } from "./ort-api.ts";

const device = { name: "NVIDIA H200" };

it.each([
  ["Failed to allocate memory for requested buffer of size 4096", "device_memory"],
  ["Available memory of 12 is smaller than requested bytes of 4096", "device_memory"],
  ["CUDA failure 2: out of memory ; GPU=0", "device_memory"],
  ["CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED", "device_memory"],
  ["CUDA failure 700: an illegal memory access was encountered ; GPU=0", "device_lost"],
  ["CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED", "device_lost"],
  ["WebGPU device lost (2): Device was destroyed", "device_lost"],
  ["WebGPU validation failed. Buffer is destroyed", "device_lost"],
  ["Exiting due to terminate flag being set to true.", "closed"],
  ["Non-zero status code returned while running Add node", "run_failed"],
])("%s", (message, code) => {
  const explained = explainFailure(new OrtFailure("RunWithBinding", 1, message), device);
  expect(explained).toMatchObject({ code });
  if (code.startsWith("device")) expect((explained as Error).message).toContain(device.name);
});

it("leaves other errors alone", () => {
  const error = new RangeError("elsewhere");
  expect(explainFailure(error, device)).toBe(error);
});
