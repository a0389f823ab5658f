import { expect, it, vi } from "vitest";
import { findRuntime } from "./find-runtime.ts";
import { reasonOf } from "./ort.ts";

it("says which runtime an engine would choose, and without the native one why and how to get it", async () => {
  expect(await findRuntime()).toEqual({ name: "native" });
  vi.resetModules();
  vi.doMock("onnxruntime-node", () => {
    throw new Error("Cannot find package 'onnxruntime-node'");
  });
  const { findRuntime: without } = await import("./find-runtime.ts");
  expect(await without()).toMatchObject({
    name: "wasm",
    reason: expect.any(String),
    hint: expect.stringContaining("npm install onnxruntime-node"),
  });
  vi.doUnmock("onnxruntime-node");
});

it("names the missing package, and no importing file", () => {
  const error = new Error("Cannot find package 'onnxruntime-node' imported from /x/engine/dist/runtime/ort.js\nmore");
  expect(reasonOf(error)).toBe("Cannot find package 'onnxruntime-node'");
});
