import { expect, it } from "vitest";
import { Redactor } from "./redact.ts";

it("M-805: blanks out keys and tokens by their shape", () => {
  const redactor = new Redactor();
  expect(redactor.text("key tml-abcDEF_123-x, then")).toBe("key [redacted], then");
  expect(redactor.text("token eyJhbGciOi.eyJzdWIi.c2ln end")).toBe("token [redacted] end");
  expect(redactor.text("token eyJhbGciOi.eyJzdWIi end")).toBe("token [redacted] end");
  expect(redactor.text("tml- alone, eyJ alone, html-page")).toBe("tml- alone, eyJ alone, html-page");
});

it("M-805: redacts the added values everywhere", () => {
  const redactor = new Redactor();
  redactor.add("s3cretvalue");
  redactor.add("short");
  redactor.add(undefined);
  expect(redactor.text("s3cretvalue and s3cretvalue, short")).toBe("[redacted] and [redacted], short");
});

it("keeps the exact length limit of what counts as a secret", () => {
  const redactor = new Redactor();
  redactor.add("12345678");
  redactor.add("abcdefg");
  expect(redactor.text("12345678 abcdefg")).toBe("[redacted] abcdefg");
});

it("cleans nested values and keys, and leaves others alone", () => {
  const redactor = new Redactor();
  const date = new Date(0);
  expect(redactor.value({ "tml-aaaa": ["tml-bbbb", 1, null, { deep: "x tml-cccc" }], date, ok: true })).toEqual({
    "[redacted]": ["[redacted]", 1, null, { deep: "x [redacted]" }],
    date,
    ok: true,
  });
});
