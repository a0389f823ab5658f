// Notices are printed once; plain errors of packages keep their messages.
import { expect, it, vi } from "vitest";
import { asSaid, engineNotices } from "./context.ts";
import { Output } from "./output/output.ts";

it("the same notice of several engines is printed once", () => {
  const written = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const notice = engineNotices(new Output({ format: "table", quiet: false, color: false }));
  const message = "onnxruntime-node cannot be loaded (not found): running on WebAssembly; npm install onnxruntime-node";
  for (let engine = 0; engine < 3; engine++) notice(message);
  const lines = written.mock.calls.map(([line]) => String(line));
  written.mockRestore();
  expect(lines).toEqual([`Note: ${message}.\n`]);
});

it("a plain error of a package becomes a CliError with the same message, other errors stay as they are", async () => {
  expect(await asSaid(new Error("The model name x is given twice."))).toMatchObject({ name: "CliError" });
  const [bug, coded] = [new TypeError("x is not a function"), Object.assign(new Error("gone"), { code: "ENOENT" })];
  expect(await asSaid(bug)).toBe(bug);
  expect(await asSaid(coded)).toBe(coded);
});
