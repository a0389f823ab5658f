/**
 * Structured log lines: the name of an event and its fields, for a terminal or as one JSON object per line. Control characters are
 * escaped. Callers pass no fields with credentials; nothing is redacted here.
 */
import type { Clock } from "@tinklet/wire/clock";

/** Fields of a log line. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;
/** JSON lines, readable lines, or no log. */
export type LogFormat = "json" | "pretty" | "off";

/** A structured logger. */
export interface Log {
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  error(event: string, fields?: LogFields): void;
}

const colours = { info: 36, warn: 33, error: 31 } as const;

/** JSON escapes of a character: two of them beyond U+FFFF. */
const escaped = (char: string): string =>
  Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");

/** Escapes control and formatting characters: text of a client must not control the terminal that shows it. */
const printable = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, escaped);

/** Creates a logger. @param write - receives one line without its line break. @defaultValue writes to standard error */
export function createLog(
  clock: Pick<Clock, "now">,
  format: LogFormat,
  write: (line: string) => void = (line) => process.stderr.write(`${line}\n`),
): Log {
  const colour = process.stderr.isTTY === true && process.env["NO_COLOR"] === undefined;
  const at =
    (level: keyof typeof colours) =>
    (event: string, fields: LogFields = {}) => {
      if (format === "off") return;
      const time = new Date(clock.now()).toISOString();
      if (format === "json") return write(printable(JSON.stringify({ time, level, event, ...fields })));
      const label = colour ? `\u001b[${colours[level]}m${level}\u001b[0m` : level;
      const rest = Object.entries(fields)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => {
          const quoted = typeof value === "string" && /[\s"=\p{Cc}]/u.test(value);
          return ` ${key}=${printable(quoted ? JSON.stringify(value) : String(value))}`;
        });
      write(`${time.slice(11, 23)} ${label} ${event}${rest.join("")}`);
    };
  return { info: at("info"), warn: at("warn"), error: at("error") };
}
