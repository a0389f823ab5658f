/** An adapter folder with the Tinker service's names: `tinker-names-main ADAPTER OUT`. */
import { exportAdapter } from "../../../packages/sdk/src/files.ts";

const [adapter, out] = process.argv.slice(2) as [string, string];
await exportAdapter(adapter, out, { format: "tinker" });
