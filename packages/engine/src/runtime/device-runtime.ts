/** A runtime whose programs run on a device. */
import type { Device } from "./device.ts";
import type { Runtime } from "./runtime.ts";

/** Programs without resident outputs behave as on other runtimes: inputs and outputs cross the bus. */
export const createDeviceRuntime = (device: Device): Runtime => ({
  name: "native",
  threads: 1,
  device,
  compile: (graph, weights) => device.compile(graph, weights),
});
