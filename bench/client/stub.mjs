// The stub server of the client bench, in a process of its own; prints its URL. `node stub.mjs [milliseconds per sample] [one-poll]`: with
// `one-poll` it asks for one poll for all samples
import { listen, StubServer } from "../../packages/sdk/dist/testing/index.js";

const sampleMs = Number(process.argv[2] ?? 0);
// The official SDK chooses its faster transport unless told otherwise.
const config = {
  use_pyqwest_transport: true,
  sample_max_concurrent_requests: 2_000,
  sample_use_retrieve_futures: process.argv[3] === "one-poll",
};
const listener = await listen(new StubServer(sampleMs === 0 ? { config } : { config, sampleMs }));
console.log(listener.url);
process.on("message", () => process.send?.({ mostOpen: listener.mostOpen }));
