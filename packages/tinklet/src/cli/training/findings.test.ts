/** What the diagnosis finds is a note for people and an event for machines. */
import { afterEach, expect, test, vi } from "vitest";
import { Output } from "../output/output.ts";
import { showFindings } from "./findings.ts";

afterEach(() => void vi.restoreAllMocks());
const finding = { code: "no_signal", step: 4, message: "All rewards are equal.", remedy: "Check the reward." } as const;

test("a note names the stage, what was seen and the remedy", () => {
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  showFindings([finding], new Output({ format: "table", quiet: false, color: false }), "rl");
  expect(stderr.mock.calls.join("")).toContain("Notice (rl): All rewards are equal. Check the reward.");
});

test("with --json it is an event", () => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const stdout = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  showFindings([finding], new Output({ format: "json", quiet: false, color: false }));
  expect(JSON.parse(String(stdout.mock.calls[0]?.[0]))).toEqual({ type: "finding", ...finding });
});
