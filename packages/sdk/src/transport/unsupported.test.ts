import type { Operation } from "@tinklet/wire";
import { statusError } from "@tinklet/wire/errors";
import { describe, expect, it } from "vitest";
import { loadRoute } from "../../../wire/src/routes/known-routes.ts";
import { unsupported } from "./unsupported.ts";

const refusal = (status: number, body: unknown) =>
  statusError("refused", { status, body, headers: {}, operation: "x" } as unknown as Parameters<typeof statusError>[1]);
const lacks = (status: number, body: unknown, operation: Operation = "asample") => {
  const found = unsupported(refusal(status, body), operation);
  return found === undefined ? undefined : [found.feature, found.since];
};
const extra = (...loc: unknown[]) => ({ type: "extra_forbidden", loc, msg: "Extra inputs are not permitted" });

describe("a server without a newer route", async () => {
  await loadRoute("searchSessions");
  const route = ["/sessions/search", "0.36"];

  it("is known by the framework's answers", () => {
    for (const status of [404, 405, 501]) {
      for (const body of [
        { detail: "Not Found" },
        { detail: "Method Not Allowed" },
        { detail: "" },
        {},
        undefined,
        "",
      ]) {
        expect(lacks(status, body, "searchSessions"), `${status} ${JSON.stringify(body)}`).toEqual(route);
      }
    }
  });

  it("is not one that says what it did not find, or fails otherwise, or that every server has", () => {
    expect(lacks(404, { detail: "no such project" }, "searchSessions")).toBeUndefined();
    expect(lacks(404, "gone for lunch", "searchSessions")).toBeUndefined();
    for (const status of [400, 403, 410, 422, 500]) {
      expect(lacks(status, { detail: "Not Found" }, "searchSessions"), String(status)).toBeUndefined();
    }
    expect(lacks(404, { detail: "Not Found" }, "asample")).toBeUndefined();
  });
});

describe("a server without a newer field", () => {
  it("is known by what it says of the field", () => {
    for (const status of [400, 422]) {
      expect(lacks(status, { detail: [extra("body", "prompt_alt_tokens_k")] })).toEqual([
        "prompt_alt_tokens_k",
        "0.31",
      ]);
      expect(lacks(status, [extra("body", "display_name")])).toEqual(["display_name", "0.34"]);
    }
    const others = [
      null,
      "odd",
      { type: "missing", loc: ["body", "prompt"] },
      { type: "extra_forbidden", loc: "body" },
    ];
    expect(lacks(422, { detail: [...others, extra("body", "mine"), extra("body", "user_metadata")] })).toEqual([
      "user_metadata",
      "0.28",
    ]);
  });

  it("is not one that refuses a value, an unknown name, or with another status", () => {
    expect(lacks(422, { detail: [{ type: "int_type", loc: ["body", "topk_sample_logprobs"] }] })).toBeUndefined();
    expect(lacks(422, { detail: [extra("body", "toString")] })).toBeUndefined();
    expect(lacks(422, { detail: [extra("body", "display_name", "mine")] })).toBeUndefined(); // the last name is meant
    expect(lacks(422, { detail: [] })).toBeUndefined();
    expect(lacks(422, { detail: "topk_sample_logprobs" })).toBeUndefined();
    expect(lacks(409, { detail: [extra("body", "topk_sample_logprobs")] })).toBeUndefined();
  });

  it("keeps the refusal as the cause", () => {
    const error = refusal(422, { detail: [extra("body", "display_name")] });
    expect(unsupported(error, "asample")?.cause).toBe(error);
    const missing = refusal(404, { detail: "Not Found" });
    expect(unsupported(missing, "searchSessions")?.cause).toBe(missing);
  });
});
