// Text of servers, models and files is printed without their escape sequences and without keys.

import { Redactor } from "@tinklet/sdk/environment";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Input } from "../parse.ts";
import { Output } from "./output.ts";

let out = "";
let err = "";
const collect = () => {
  out = err = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    out += String(text);
    return true;
  });
  vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    err += String(text);
    return true;
  });
};
const terminal = (value: boolean) => {
  for (const stream of [process.stdout, process.stderr]) {
    const before = Object.getOwnPropertyDescriptor(stream, "isTTY");
    Object.defineProperty(stream, "isTTY", { value, configurable: true });
    restore.push(() =>
      before === undefined ? Reflect.deleteProperty(stream, "isTTY") : Object.defineProperty(stream, "isTTY", before),
    );
  }
};
const restore: (() => void)[] = [];
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  for (const undo of restore.splice(0)) undo();
});

const table = (color = false) => new Output({ format: "table", quiet: false, color });
/** Sets a title, clears the screen by a C1 control, goes back to the line's begin, turns the order of letters. */
const hostile = "a\x1b]0;title\x07b\x9b2Jc\rd\u202ee\u2028f\u{e0041}";
const spelt = "a\\u001b]0;title\\u0007b\\u009b2Jc\\u000dd\\u202ee\\u2028f\\udb40\\udc41";

describe("text from elsewhere", () => {
  it("is spelt out in every kind of output", () => {
    for (const write of [
      (output: Output) => output.line(hostile),
      (output: Output) => output.note(hostile),
      (output: Output) => output.ask(hostile),
      (output: Output) => output.error({ message: hostile, details: [hostile] }),
      (output: Output) => output.progress(hostile, { always: true }),
      (output: Output) => output.result({ json: {}, title: hostile, columns: ["A", "B"], rows: [[hostile, hostile]] }),
    ]) {
      collect();
      write(table());
      expect(out + err).toContain(spelt);
      expect(out + err).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}]/u);
    }
  });

  it("is one row in a table, and the one line that is written over", () => {
    collect();
    table().result({ json: {}, columns: ["A"], rows: [["x\ny"]] });
    expect(out).toBe("A\nx\\u000ay\n");
    terminal(true);
    table().progress(`x\n${hostile}`);
    expect(err).toBe(`\r\x1b[2Kx ${spelt}`);
  });

  it("keeps lines, tabs and emoji, and this program's own colours", () => {
    collect();
    table(true).line(`${table(true).style("red\x1b[31m", "cyan")}\n\t👩‍🚀`);
    expect(out).toBe("\x1b[96mred\\u001b[31m\x1b[0m\n\t👩‍🚀\n");
  });

  it("means the same as JSON", () => {
    collect();
    const output = new Output({ format: "json", quiet: false, color: false });
    output.result({ json: { name: hostile }, columns: [], rows: [] });
    expect(out).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}]/u);
    expect(JSON.parse(out)).toEqual({ name: hostile });
    collect();
    output.event({ name: hostile });
    expect(out.indexOf("\n")).toBe(out.length - 1);
    expect(JSON.parse(out)).toEqual({ name: hostile });
  });

  it("is exact where it is the result itself and goes into a pipe", () => {
    terminal(false);
    collect();
    table(true).data(`${hostile}\r\n${table(true).style("x", "dim")}`);
    expect(out).toBe(`${hostile}\r\n\x1b[2mx\x1b[0m`);
    terminal(true);
    collect();
    table().data(`${hostile}\r\n`);
    expect(out).toBe(`${spelt}\n`);
  });
});

describe("keys", () => {
  it("that were given do not get out when a server says them", () => {
    vi.stubEnv("TINKER_API_KEY", "tml-from-environment");
    const output = Output.of(new Input({ "api-key": "tml-from-option" }, []));
    output.hide("pasted-key");
    const learned = new Redactor();
    output.hideWith(learned);
    learned.add("token-of-later");
    for (const key of ["tml-from-environment", "tml-from-option", "pasted-key", "token-of-later"]) {
      collect();
      output.error({ message: `no ${key}`, details: [key] });
      output.line(key);
      output.data(key);
      output.result({ json: {}, columns: ["A"], rows: [[key]] });
      expect(out + err).toContain("[redacted]");
      expect(out + err).not.toContain(key);
    }
  });

  it("names that only look like keys stay, and the local user's", () => {
    collect();
    const output = Output.of(new Input({ "api-key": "tml-local" }, []));
    output.line("org/tml-large-8B TINKER_API_KEY=tml-local");
    expect(out).toBe("org/tml-large-8B TINKER_API_KEY=tml-local\n");
  });
});
