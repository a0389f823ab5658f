/** A program that exits while the engine computes keeps its exit status. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
// @ts-expect-error a script without types
import { bundle } from "../../../test/fixtures/programs/bundle.mjs";
import { loadNativeRuntime } from "./runtime/ort.ts";

const { runtime } = await loadNativeRuntime(1);

test.skipIf(runtime === undefined)("process.exit() amid a pass ends with its own status", async () => {
  const program = (await bundle("packages/engine/src/testing/exit-main.ts")) as string;
  const model = fileURLToPath(new URL("../../base-model", import.meta.url));
  const child = spawn(process.execPath, [program, model], { stdio: ["ignore", "inherit", "pipe"] });
  let complaints = "";
  child.stderr.on("data", (chunk: Buffer) => {
    complaints += chunk.toString();
  });
  const [status, signal] = (await once(child, "exit")) as [number | null, string | null];
  expect({ status, signal, complaints }).toEqual({ status: 7, signal: null, complaints: "" });
});
