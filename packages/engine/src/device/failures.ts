/** Classifies failures of native code: out of memory, terminated run, lost device, or a defect. */
import { DeviceError, EngineError } from "../errors.ts";
import { OrtFailure } from "./ort-api.ts";

/** Out-of-memory messages of onnxruntime's allocators, CUDA and Dawn. */
const memoryWords =
  /out of memory|OutOfMemory|Failed to allocate memory|Available memory of \d+ is smaller|CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|bad_alloc/i;
/** Messages after which the device's state is unknown. CUDA then rejects all further work in the process. */
const lossWords =
  /CUDA (failure|error)|CUBLAS|CUDNN|cudaError|WebGPU validation failed|Failed to download data|Failed to wait|Failed to pop WebGPU|device (was |is )?lost|VK_ERROR|DXGI_ERROR/i;
const endedWords = /terminate flag/i;

const firstLine = (text: string): string => text.split("\n")[0]!.trim();

/** Converts a native failure to the error that callers receive. */
export function explainFailure(error: unknown, device: { readonly name: string }): unknown {
  if (!(error instanceof OrtFailure)) return error;
  const { message } = error;
  if (endedWords.test(message)) return new EngineError("closed", "the run was ended because the engine closes");
  if (memoryWords.test(message)) {
    return new DeviceError("device_memory", `${device.name} has no memory left for this run: ${firstLine(message)}`, {
      cause: error,
    });
  }
  if (lossWords.test(message)) {
    return new DeviceError("device_lost", `${device.name} cannot be used any longer: ${firstLine(message)}`, {
      hint: "open the engine again; if it happens again, look for driver errors in the system's log",
      cause: error,
    });
  }
  return new EngineError("run_failed", `onnxruntime failed: ${firstLine(message)}`, { cause: error });
}
