import { TinkerError } from "@tinklet/wire/errors";
import { afterEach, describe, expect, it, vi } from "vitest";
import { nodeBuiltin } from "./node-builtin.ts";

describe("Node's own modules", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("come from the running process", async () => {
    expect(nodeBuiltin("node:path")).toBe((await import("node:path")).default);
  });

  it("where there are none, the error says what to do", () => {
    vi.stubGlobal("process", undefined);
    expect(() => nodeBuiltin("node:path")).toThrow(TinkerError);
    expect(() => nodeBuiltin("node:path")).toThrow(/node:path is not available here/);
  });
});
