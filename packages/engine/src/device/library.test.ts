/** The library is the installed package's, at an absolute path that does not depend on the environment. */
import { isAbsolute } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { loadOrtApi } from "./koffi-api.ts";
import { findLibrary } from "./library.ts";

afterEach(() => vi.unstubAllEnvs());

it("is the package's, of its version", async () => {
  vi.stubEnv("LD_LIBRARY_PATH", "/nowhere");
  vi.stubEnv("ORT_DYLIB_PATH", "/nowhere/libonnxruntime.so");
  const { path, version } = findLibrary();
  expect(isAbsolute(path)).toBe(true);
  expect((await loadOrtApi(path)).version).toBe(version);
});

it("says what is missing", () => {
  expect(() => findLibrary({ packageFile: "" })).toThrow(/no library/);
  expect(() => findLibrary({ platform: "freebsd" })).toThrow("onnxruntime-node has no library for freebsd");
  expect(() => findLibrary({ packageFile: "/nowhere/package.json" })).toThrow(/no library/);
});
