/** Choice of a runtime: native if it can be loaded, otherwise WebAssembly with a notice. */
import { expect, it } from "vitest";
import { ConfigError } from "./errors.ts";
import { chooseRuntime } from "./open-core.ts";

const absent = () => Promise.resolve({ reason: "Cannot find package 'onnxruntime-node'" });

it("falls back to WebAssembly and says what to do", async () => {
  const notices: string[] = [];
  const runtime = await chooseRuntime("auto", {
    threads: 1,
    notice: (message) => notices.push(message),
    loadNative: absent,
  });
  expect(runtime.name).toBe("wasm");
  expect(notices).toHaveLength(1);
  expect(notices[0]).toMatch(/Cannot find package.*WebAssembly.*npm install onnxruntime-node/);
});

it("does not fall back when the native runtime was asked for", async () => {
  await expect(chooseRuntime("native", { threads: 1, notice: () => {}, loadNative: absent })).rejects.toThrow(
    ConfigError,
  );
});

it("uses what was asked for", async () => {
  expect((await chooseRuntime("interpreter", { threads: 1, notice: () => {} })).name).toBe("interpreter");
  expect((await chooseRuntime("wasm", { threads: 1, notice: () => {} })).name).toBe("wasm");
});
