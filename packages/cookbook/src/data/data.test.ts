// Data by file and by name: every format gives the same rows, every mistake its place, and the Hub is a fake one on this machine.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type FakeHub, startFakeHub } from "../../../models/src/testing/fake-hub.ts";
import { readCsv } from "./csv.ts";
import { chosenFiles } from "./dataset-files.ts";
import { readExamples } from "./examples.ts";
import { readData } from "./read-data.ts";

const folder = mkdtempSync(join(tmpdir(), "tinklet-data-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const parquet = (name: string) => fileURLToPath(new URL(`../../../../test/fixtures/parquet/${name}`, import.meta.url));
const file = (name: string, content: string | Uint8Array) => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};
async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const row of rows) found.push(row);
  return found;
}

describe("CSV", () => {
  it("has quoted cells, doubled quotes, line breaks within, and the lines on which records begin", async () => {
    const path = file("a.csv", '\ufeffprompt,completion\r\n"a, ""b""\nc",1\r\n\r\nplain, x \n"",last');
    expect(await all(readCsv(path))).toEqual([
      { value: { prompt: 'a, "b"\nc', completion: "1" }, line: 2 },
      { value: { prompt: "plain", completion: " x " }, line: 5 },
      { value: { prompt: "", completion: "last" }, line: 6 },
    ]);
    expect(await all(readData(file("a.tsv", "a\tb\n1,2\t3\n")))).toMatchObject([
      { value: { a: "1,2", b: "3" }, line: 2 },
    ]);
  });

  it.each<[string, string | Uint8Array, RegExp]>([
    ["too few cells", "a,b\n1,2\n3\n", /bad\.csv:3: has 1 cells where the first line has 2/],
    ["an open quote", 'a\n"x\ny\n', /bad\.csv:2: has a quote that is never closed/],
    ["text after a quote", 'a\n1\n"x"y\n', /bad\.csv:3: has text after a closing quote/],
    ["two columns of a name", "a,a\n", /bad\.csv:1: has two columns named "a"/],
    ["a column without a name", "a,\n", /bad\.csv:1: has a column without a name/],
    ["another encoding", Buffer.from([97, 10, 0xff, 10]), /bad\.csv:1: is not UTF-8/],
  ])("refuses %s, with its line", async (_, text, said) => {
    await expect(all(readCsv(file("bad.csv", text)))).rejects.toThrow(said);
  });

  it("is read alike however it is cut into pieces", async () => {
    const long = `a,b\n${Array.from({ length: 30_000 }, (_, at) => `"ü${at}\n",${at}`).join("\n")}\n`; // many chunks of a file
    const rows = await all(readCsv(file("long.csv", long)));
    expect(rows.length).toBe(30_000);
    expect(rows.at(-1)).toEqual({ value: { a: "ü29999\n", b: "29999" }, line: 60_000 });
  });
});

describe("Parquet", () => {
  it.each(["none", "snappy", "gzip", "zstd", "brotli"])("reads what pyarrow wrote with the codec %s", async (codec) => {
    const rows = await all(readData(parquet(`${codec}.parquet`)));
    expect(rows.map(({ line }) => line)).toEqual(Array.from({ length: 40 }, (_, at) => at + 1)); // of three row groups
    expect(rows.map(({ value }) => value)).toEqual(
      Array.from({ length: 40 }, (_, n) => ({ prompt: `What is ${n} + ${n}?`, completion: ` ${2 * n}`, n })),
    );
  });

  it("reads conversations; integers beyond what a number holds are texts", async () => {
    const rows = await all(readData(parquet("chats.parquet")));
    expect(rows[0]?.value).toEqual({
      messages: [
        { role: "user", content: "Say one." },
        { role: "assistant", content: "one" },
      ],
      id: "9007199254740992",
    });
    expect(rows[2]?.value).toMatchObject({ tags: ["a", "ü"] });
    expect((await readExamples(parquet("chats.parquet"))).map(({ kind, line }) => [kind, line])).toEqual([
      ["chat", 1],
      ["chat", 2],
      ["chat", 3],
    ]);
  });

  it("says what is no Parquet", async () => {
    await expect(all(readData(file("x.parquet", "hello, this is not Parquet")))).rejects.toThrow(
      /x\.parquet: is not Parquet/,
    );
    const cut = readFileSync(parquet("snappy.parquet")).subarray(0, 500);
    await expect(all(readData(file("cut.parquet", cut)))).rejects.toThrow(/cut\.parquet: is not Parquet/);
    await expect(all(readData(join(folder, "none.parquet")))).rejects.toThrow("there is no such file");
  });
});

describe("examples", () => {
  it("are the same from every format", async () => {
    const rows = [
      { prompt: "2 + 2 =", completion: " 4" },
      { prompt: 'say "a"', completion: "a" },
    ];
    const jsonl = file("e.jsonl", rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const csv = file("e.csv", 'prompt,completion\n2 + 2 =, 4\n"say ""a""",a\n');
    const strip = (all: object[]) => all.map((one) => ({ ...one, file: "", line: 0 }));
    expect(strip(await readExamples(csv))).toEqual(strip(await readExamples(jsonl)));
    const chat = file(
      "chat.csv",
      `messages\n"${JSON.stringify([{ role: "user", content: "hi" }]).replaceAll('"', '""')}"\n`,
    );
    expect(await readExamples(chat)).toMatchObject([{ kind: "chat", messages: [{ role: "user" }] }]);
    await expect(readExamples(file("bad.csv", "messages\n[no\n"))).rejects.toThrow(
      /bad\.csv:2: messages must be a list/,
    );
    await expect(readExamples(file("bad.csv", "prompt,completion\na,b\nc,\n"))).rejects.toThrow(
      /bad\.csv:3: completion must be a string, not empty/,
    );
    await expect(readExamples("hf://models/a/b")).rejects.toThrow(/neither a file nor a dataset/);
  });
});

describe("the Hub", () => {
  let hub: FakeHub;
  const published = {
    "README.md": "about",
    "data/train-00000-of-00002.parquet": readFileSync(parquet("snappy.parquet")),
    "data/train-00001-of-00002.parquet": readFileSync(parquet("zstd.parquet")),
    "data/test-00000-of-00001.parquet": readFileSync(parquet("gzip.parquet")),
    "../../evil.jsonl": "{}",
  };
  beforeEach(async () => {
    hub = await startFakeHub(published, "datasets/org/name");
    vi.stubEnv("HF_ENDPOINT", hub.url);
    vi.stubEnv("HF_TOKEN", "");
    vi.stubEnv("HF_HUB_OFFLINE", "");
    vi.stubEnv("HF_HOME", mkdtempSync(join(folder, "home-")));
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await hub[Symbol.asyncDispose]();
  });

  it("gives a dataset by its name: the training split, in order, and from the cache the next time", async () => {
    const rows = await all(readData("org/name"));
    expect(rows.length).toBe(80);
    expect(rows[40]).toMatchObject({ file: "org/name/data/train-00001-of-00002.parquet", line: 1 });
    const asked = hub.log.length;
    expect((await all(readData("hf://datasets/org/name@main:test"))).length).toBe(40);
    await all(readData("org/name"));
    expect(hub.log.slice(asked).filter((line) => line.includes("train-"))).toEqual([]);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    const offline = hub.log.length;
    expect((await all(readData("org/name:data/train"))).length).toBe(80);
    expect(hub.log.length).toBe(offline);
  });

  it("says what there is when a part is not", async () => {
    await expect(all(readData("org/name:validation"))).rejects.toMatchObject({
      name: "DataError",
      message: 'org/name: has no part "validation"',
      hint: "Name one: org/name:data/test, org/name:data/train.",
    });
    await expect(all(readData("org/other"))).rejects.toMatchObject({ name: "HubError" });
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    await expect(all(readData("org/unknown"))).rejects.toThrow(/not in the cache and downloads are disabled/);
  });
});

describe("parts of a dataset", () => {
  const files = [
    "main/train-00000-of-00001.parquet",
    "main/test-00000-of-00001.parquet",
    "socratic/train.jsonl",
    "x.txt",
  ];
  it("are named by their path; the best format of each", () => {
    expect(chosenFiles(files, "test", "d")).toEqual([files[1]]);
    expect(chosenFiles(files, "main/train", "d")).toEqual([files[0]]);
    expect(chosenFiles(["a.csv", "a.parquet", "a.jsonl"], undefined, "d")).toEqual(["a.parquet"]);
    expect(() => chosenFiles(files, undefined, "d")).toThrow(/several parts for training/);
    expect(() => chosenFiles(["x.txt"], undefined, "d")).toThrow(/no file that can be read/);
  });
});
