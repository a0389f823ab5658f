import fc from "fast-check";
import { expect, test } from "vitest";
import { parseStrictJson } from "./strict-json.ts";

test("accepts the same JSON as JSON.parse", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(0, 2), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      expect(parseStrictJson(text)).toEqual(JSON.parse(text));
    }),
  );
});

test.each([
  '{"a":1,"a":2}',
  '{"a":{"b":1,"c":[],"b":2}}',
  '[{"x":1},{"y":1 , "y" :2}]',
  '{"a":1,"\\u0061":2}',
  '{"\\"":1,"\\u0022":2}',
])("rejects the duplicate key in %s", (text) => {
  expect(() => parseStrictJson(text)).toThrow(/appears twice/);
});

test("equal keys in different objects and equal values are accepted", () => {
  const text = '{"a":{"k":"k"},"b":{"k":"k"},"c":["k","k"]}';
  expect(parseStrictJson(text)).toEqual(JSON.parse(text));
});
