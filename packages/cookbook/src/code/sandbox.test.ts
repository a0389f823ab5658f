import { FakeClock } from "@tinklet/sdk/testing";
import { afterAll, describe, expect, it, vi } from "vitest";
import { hostilePrograms, unknowable } from "../testing/hostile-programs.ts";
import { type CodeTest, createSandbox } from "./sandbox.ts";

const sandbox = createSandbox();
afterAll(() => sandbox.close());
const six: CodeTest[] = [{ call: "f", args: [3], expected: 6 }];
const returns = (value: unknown, expected: unknown = value) =>
  sandbox.grade(`const f = () => (${JSON.stringify(value)});`, [{ call: "f", args: [], expected }]);

describe("a program in the sandbox", () => {
  it("passes the tests that it passes, one after the other, with its state kept between them", async () => {
    const program = "let calls = 0; const f = (x) => { calls += 1; return x * 2 + calls - 1; };";
    const tests = [3, 3, 3].map((x, index) => ({ call: "f", args: [x], expected: index === 2 ? 0 : 6 + index }));
    expect(await sandbox.grade(program, tests)).toEqual({
      share: 2 / 3,
      outcomes: [{ outcome: "passed" }, { outcome: "passed" }, { outcome: "wrong" }],
    });
    expect(await sandbox.grade("typeof calls === 'undefined' || nothing; const f = () => 6;", six)).toMatchObject({
      share: 1,
    });
  });

  it("may be asynchronous", async () => {
    expect(await sandbox.grade("async function f(x) { await null; return x * 2; }", six)).toMatchObject({ share: 1 });
    expect((await sandbox.grade("const f = () => new Promise(() => {});", six)).outcomes).toEqual([
      { outcome: "threw", message: "the promise never settles" },
    ]);
  });

  it("returns data, which is compared by its structure", async () => {
    for (const value of [null, true, "", "é😀", [1, [2, { a: null }]], { b: [1], a: { c: "x" } }, [], {}])
      expect(await returns(value), JSON.stringify(value)).toMatchObject({ share: 1 });
    expect(await returns({ a: 1, b: 2 }, { b: 2, a: 1 })).toMatchObject({ share: 1 });
    expect(await returns(0.1 + 0.2, 0.3)).toMatchObject({ share: 1 });
    const wrong: [unknown, unknown][] = [
      [[1], [1, 2]],
      [[1, 2], [1]],
      [{ a: 1 }, {}],
      [{}, { a: 1 }],
      [[], {}],
      [{}, []],
      ["6", 6],
      [null, 0],
      [1.001, 1],
    ];
    for (const [value, expected] of wrong)
      expect(await returns(value, expected), JSON.stringify([value, expected])).toMatchObject({ share: 0 });
  });

  it("does not pass by numbers that are not finite", async () => {
    for (const value of ["1 / 0", "-1 / 0", "0 / 0"])
      for (const expected of [6, [6], { a: 6 }]) {
        const program = `const f = () => (${JSON.stringify(expected).replace("6", value)});`;
        expect(await sandbox.grade(program, [{ call: "f", args: [], expected }]), program).toMatchObject({ share: 0 });
      }
  });

  it("reports the error of a program that throws or does not parse", async () => {
    expect((await sandbox.grade("const f = (x) => x.y.z;", six)).outcomes[0]).toMatchObject({
      outcome: "threw",
      message: /TypeError/ as never,
    });
  });
});

describe("tests that are not usable", () => {
  it.each([
    [{ call: "f()", args: [], expected: 1 }, "tests.call: must be the name of a function"],
    [{ call: "f", args: [Number.NaN], expected: 1 }, "tests.args: must be a list of JSON values"],
    [{ call: "f", args: [], expected: undefined }, "tests.expected: must be a JSON value"],
    [{ call: "f", args: [], expected: new Map() }, "tests.expected: must be a JSON value"],
  ])("%j", async (test, message) => {
    await expect(sandbox.grade("", [test])).rejects.toThrow(message);
  });
});

describe("limits", () => {
  it("end a program after a number of calls and jumps, the same on every machine", async () => {
    const loop = { share: 0, outcomes: [], ended: "ticks" };
    expect(await sandbox.grade("for (;;) {}", six)).toEqual(loop);
    expect(await sandbox.grade("try { for (;;) {} } catch {} finally { for (;;) {} }", six)).toEqual(loop);
    const second = "let calls = 0; const f = (x) => { if (calls++ === 1) for (;;) {} return 2 * x; };";
    expect(await sandbox.grade(second, [...six, ...six, ...six])).toEqual({
      share: 1 / 3,
      outcomes: [{ outcome: "passed" }],
      ended: "ticks",
    });
  });

  it("of memory and stack are errors of the program", async () => {
    const outcome = async (program: string) => (await sandbox.grade(program, six)).outcomes[0]?.message;
    expect(await outcome("const kept = []; for (;;) kept.push(new ArrayBuffer(1e6));")).toMatch(/memory/);
    expect(await outcome("const f = (x) => f(x) + 1;")).toMatch(/stack/);
  });

  it("of time end the thread, and the next program has a new one", async () => {
    const clock = new FakeClock();
    await using timed = createSandbox({ clock, threads: 1, maxTicks: 1e6, timeLimitMs: 500 });
    const slow = timed.grade("for (;;) 'x'.repeat(1e6).split('');", six);
    const next = timed.grade("const f = (x) => 2 * x;", six);
    await vi.waitUntil(() => clock.pending > 0);
    await clock.advance(500);
    expect(await slow).toEqual({ share: 0, outcomes: [], ended: "time" });
    expect(await next).toMatchObject({ share: 1 });
  });

  it("of length, and of options", async () => {
    expect(await sandbox.grade(" ".repeat(65_537), six)).toEqual({ share: 0, outcomes: [], ended: "size" });
    expect(() => createSandbox({ threads: 0 })).toThrow("threads: must be an integer from 1 to 64, got 0");
    expect(() => createSandbox({ memory: 1 } as never)).toThrow("memory");
  });

  it("a closed sandbox ends what runs and what waits", async () => {
    const closing = createSandbox({ threads: 1, maxTicks: 1e6 });
    const settled = Promise.allSettled([closing.grade("for (;;) {}", six), closing.grade("", six)]);
    await closing.close();
    const results = [...(await settled), ...(await Promise.allSettled([closing.grade("", six)]))];
    for (const result of results)
      expect(String((result as PromiseRejectedResult).reason)).toMatch(/the sandbox is closed/);
  });
});

describe("what a program can reach", () => {
  it("is the language: no function of the host, a clock that stands still, the same random numbers", async () => {
    const [names, time, random] = ["Object.getOwnPropertyNames(globalThis)", "Date.now()", "Math.random()"];
    const program = `const f = () => [${names}.filter((n) => /process|require|fetch|Worker|setTimeout|post|std|os$|scriptArgs|print|load/.test(n)), ${time}, ${random} === Math.random()];`;
    const tests = [{ call: "f", args: [], expected: [[], Date.UTC(2026, 0, 1), false] }];
    expect(await sandbox.grade(program, tests)).toMatchObject({ share: 1 });
  });

  it("is no answer: a part of the hostile programs gets none, and the sandbox works after each (all: sandbox.drill.test.ts)", async () => {
    await using hostile = createSandbox({ timeLimitMs: 100 });
    const programs = hostilePrograms();
    expect(programs.length).toBeGreaterThanOrEqual(500);
    expect(new Set(programs.map(({ source }) => source)).size).toBe(programs.length);
    for (const { name, source } of programs.filter((_, index) => index % 19 === 0))
      expect(await hostile.grade(source, unknowable), name).toMatchObject({ share: 0 });
    expect(await hostile.grade("const f = (x) => 2 * x;", six)).toMatchObject({ share: 1 });
  });
});
