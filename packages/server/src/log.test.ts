import { expect, test } from "vitest";
import { createLog } from "./log.ts";

test.each(["pretty", "json"] as const)("what a client sends cannot drive the terminal: %s", (format) => {
  const lines: string[] = [];
  const log = createLog({ now: () => 0 }, format, (line) => lines.push(line));
  const nasty = "\u001b[2J\u009b31m\u0007\u202eabc\u007f\nfake line\u2028";
  log.info("request_field.ignored", { field: nasty, other: "\u001b]0;title\u0007" });
  const line = lines.join("").replaceAll("\u001b[36minfo\u001b[0m", "info"); // the logger itself colours the level
  expect(lines).toHaveLength(1);
  expect(line).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
  expect(line).toContain("abc");
  if (format === "json") expect(JSON.parse(line)).toMatchObject({ field: nasty });
});

test.each(["pretty", "json"] as const)("characters beyond U+FFFF are spelt out whole: %s", (format) => {
  const lines: string[] = [];
  const log = createLog({ now: () => 0 }, format, (line) => lines.push(line));
  const hidden = "a\u{e0041}b\u{1d173}";
  log.warn("x", { field: hidden });
  expect(lines[0]).toContain("a\\udb40\\udc41b\\ud834\\udd73");
  if (format === "json") expect(JSON.parse(lines[0]!)).toMatchObject({ field: hidden });
});
