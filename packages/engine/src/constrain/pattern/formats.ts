/**
 * The formats of JSON Schema that strings can be held to, as patterns. Each is the usual form of its RFC and narrower than it: what is
 * rarely written, or read in different ways, is never written (leap seconds, comments and quotes in addresses, `urn:uuid:`).
 */

const day = "(?:0[1-9]|1\\d|2[0-8])";
/** Years of four digits that have a February 29. */
const leapYear = "(?:\\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const date = `(?:\\d{4}-(?:(?:0[1-9]|1[0-2])-${day}|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)|${leapYear}-02-29)`;
const clock = "(?:[01]\\d|2[0-3]):[0-5]\\d";
const time = `${clock}:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]${clock})`;

const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

const byte = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const ipv4 = `${byte}(?:\\.${byte}){3}`;
const group = "[0-9A-Fa-f]{1,4}";
/** Eight groups, or fewer with one `::`. */
const ipv6 = [
  `(?:${group}:){7}${group}`,
  ...[1, 2, 3, 4, 5, 6].map((before) => `(?:${group}:){${before}}(?::${group}){1,${7 - before}}`),
  `:(?::${group}){1,7}`,
  `(?:${group}:){1,7}:`,
  "::",
].join("|");

const hex = "[0-9A-Fa-f]";
const percent = `%${hex}{2}`;
const pathCharacter = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|${percent})`;
const tail = `(?:\\?(?:${pathCharacter}|[/?])*)?(?:#(?:${pathCharacter}|[/?])*)?`;
const path = `(?:/${pathCharacter}*)*`;
const authority = `(?:${label}(?:\\.${label})*|${ipv4})(?::\\d{1,5})?`;
const uri = `[A-Za-z][A-Za-z0-9+.-]*:(?://${authority}${path}|${pathCharacter}+${path})${tail}`;

/** Periods of ISO 8601: weeks, or years to seconds with at least one part. */
const clockParts = "T(?:\\d{1,9}H(?:\\d{1,9}M)?(?:\\d{1,9}S)?|\\d{1,9}M(?:\\d{1,9}S)?|\\d{1,9}S)";
const dateParts = "(?:\\d{1,9}Y(?:\\d{1,9}M(?:\\d{1,9}D)?)?|\\d{1,9}M(?:\\d{1,9}D)?|\\d{1,9}D)";
const duration = `P(?:\\d{1,9}W|${dateParts}(?:${clockParts})?|${clockParts})`;

const formats: Readonly<Record<string, string>> = {
  date,
  time,
  "date-time": `${date}T${time}`,
  duration,
  email: `${atom}(?:\\.${atom})*@(?:${label}\\.)+${label}`,
  hostname: `${label}(?:\\.${label})*`,
  ipv4,
  ipv6,
  uri,
  uuid: `${hex}{8}-(?:${hex}{4}-){3}${hex}{12}`,
};

export const formatNames: readonly string[] = Object.keys(formats);

/** The pattern of a format; undefined if it is not supported. */
export const formatPattern = (name: string): string | undefined =>
  Object.hasOwn(formats, name) ? `^(?:${formats[name]})$` : undefined;
