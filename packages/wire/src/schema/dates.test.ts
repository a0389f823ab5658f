import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readDate, writeDate } from "./dates.ts";
import { writeDuration } from "./duration.ts";

const iso = (wire: unknown) => readDate(wire)?.toISOString();

describe("timestamps", () => {
  it("M-407: reads ISO 8601 with Z, an offset or none, and unix numbers", () => {
    expect(iso("2026-11-15T06:21:47.117530Z")).toBe("2026-11-15T06:21:47.117Z");
    expect(iso("2026-11-15T06:21:47+02:00")).toBe("2026-11-15T04:21:47.000Z");
    expect(iso("2026-11-15T06:21:47-0130")).toBe("2026-11-15T07:51:47.000Z");
    expect(iso("2026-11-15t06:21:47z")).toBe("2026-11-15T06:21:47.000Z");
    expect(iso("2026-11-15 06:21:47")).toBe("2026-11-15T06:21:47.000Z");
    expect(iso("2026-11-15T06:21")).toBe("2026-11-15T06:21:00.000Z");
    expect(iso("2026-11-15T06:21:47+05")).toBe("2026-11-15T01:21:47.000Z");
    expect(iso("2026-11-15")).toBe("2026-11-15T00:00:00.000Z");
    expect(iso(1_700_000_000)).toBe("2023-11-14T22:13:20.000Z");
    expect(iso(1_700_000_000_000)).toBe("2023-11-14T22:13:20.000Z");
    expect(iso("1700000000.5")).toBe("2023-11-14T22:13:20.500Z");
    expect(iso(-1)).toBe("1969-12-31T23:59:59.000Z");
    expect(iso("0001-01-01T00:00:00Z")).toBe("0001-01-01T00:00:00.000Z");
    expect(iso(1_700_000_000n)).toBe("2023-11-14T22:13:20.000Z");
  });

  it("M-407: an invalid timestamp reads as undefined", () => {
    const bad = [
      "",
      "yesterday",
      "2026-13-01",
      "2026-02-30",
      "2026-00-10",
      "2026-11-15T24:00:00",
      "2026-11-15T10:60:00",
    ];
    for (const wire of [...bad, "2026-11-15T10:00:60", "2026-11-15T10:00:00+25:00", "2026-11-15T10:00:00+01:75"]) {
      expect(readDate(wire), wire).toBeUndefined();
    }
    for (const wire of [null, undefined, true, {}, [], Number.NaN, Infinity, 1e30, "2026-11-15x"]) {
      expect(readDate(wire)).toBeUndefined();
    }
  });

  it("cuts microseconds to milliseconds without rounding up", () => {
    expect(iso("2026-01-01T00:00:00.999999Z")).toBe("2026-01-01T00:00:00.999Z");
    expect(iso("2026-01-01T00:00:00.001Z")).toBe("2026-01-01T00:00:00.001Z");
  });

  it("writes as Python does: no fraction when it is zero, else six digits", () => {
    expect(writeDate(new Date(Date.UTC(2026, 6, 13)))).toBe("2026-07-13T00:00:00Z");
    expect(writeDate(new Date(Date.UTC(2026, 6, 13, 1, 2, 3, 45)))).toBe("2026-07-13T01:02:03.045000Z");
  });

  it("round trip: read(write(d)) equals d for any date", () => {
    const day = fc.date({
      min: new Date("0001-01-01T00:00:00Z"),
      max: new Date("9999-12-31T00:00:00Z"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(day, (date) => {
        expect(readDate(writeDate(date))).toEqual(date);
      }),
    );
  });

  it("M-409: a duration is the text of a Python timedelta", () => {
    expect(writeDuration(551.106)).toBe("0:00:00.551106");
    expect(writeDuration(0)).toBe("0:00:00");
    expect(writeDuration(3_661_000)).toBe("1:01:01");
    expect(writeDuration(86_400_000)).toBe("1 day, 0:00:00");
    expect(writeDuration(2 * 86_400_000 + 3_600_000)).toBe("2 days, 1:00:00");
    expect(writeDuration(59_999.9996)).toBe("0:01:00");
    expect(writeDuration(-1000)).toBe("-1 day, 23:59:59");
    expect(writeDuration(36_000_000)).toBe("10:00:00");
  });
});
