/**
 * The codec of timestamps. Servers send ISO 8601 (with `Z`, with an offset, or without, which means UTC) or Unix time; the output is the
 * same as Python's: UTC with `Z`, microseconds only if they are not zero.
 */
import { custom, type Field, problem } from "./fields.ts";

const iso = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt _](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(Z|z|[+-]\d\d(?::?\d\d)?)?)?$/;
const unixNumber = /^[+-]?\d+(?:\.\d+)?$/;
/** Larger Unix times are in milliseconds, as in pydantic; 2e10 s is in the year 2603. */
const largestSeconds = 2e10;

/** Reads a timestamp; `undefined` if the value is not one. */
export function readDate(wire: unknown): Date | undefined {
  if (typeof wire === "number" || typeof wire === "bigint") return unixDate(Number(wire));
  if (typeof wire !== "string") return undefined;
  if (unixNumber.test(wire)) return unixDate(Number(wire));
  const match = iso.exec(wire);
  if (match === null) return undefined;
  const [, year, month, day, hour = "0", minute = "0", second = "0", fraction = "0", zone = "Z"] = match;
  const milliseconds = Math.floor(Number(`0.${fraction}`) * 1000 + 1e-9);
  const [y, mo, d, h, mi, s] = [year, month, day, hour, minute, second].map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  if (y < 1 || mo < 1 || mo > 12 || h > 23 || mi > 59 || s > 59) return undefined;
  const at = Date.UTC(y, mo - 1, d, h, mi, s, milliseconds);
  const date = new Date(at);
  date.setUTCFullYear(y, mo - 1, d); // Date.UTC maps the years 0 to 99 to 1900 to 1999
  if (date.getUTCDate() !== d) return undefined; // a day that the month does not have
  const offset = zoneMinutes(zone);
  return offset === undefined ? undefined : new Date(date.getTime() - offset * 60_000);
}

function zoneMinutes(zone: string): number | undefined {
  if (zone === "Z" || zone === "z") return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(3).replace(":", "") || "0");
  if (hours > 23 || minutes > 59) return undefined;
  return (zone.startsWith("-") ? -1 : 1) * (hours * 60 + minutes);
}

function unixDate(value: number): Date | undefined {
  const milliseconds = Math.abs(value) > largestSeconds ? value : value * 1000;
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? undefined : date;
}

/** Writes a timestamp as Python's `datetime` does on the wire. */
export function writeDate(date: Date): string {
  return date.toISOString().replace(/\.(\d{3})Z$/, (_, ms: string) => (ms === "000" ? "Z" : `.${ms}000Z`));
}

export const date = (): Field<Date> =>
  custom(
    { type: "datetime" },
    (wire) => {
      const value = readDate(wire);
      if (value === undefined) throw problem("a timestamp (ISO 8601 or unix time)", wire);
      return value;
    },
    (value) => {
      if (!(value instanceof Date) || Number.isNaN(value.getTime())) throw problem("a valid Date", value);
      return writeDate(value);
    },
  );
