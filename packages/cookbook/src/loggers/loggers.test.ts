// Loggers: what is written, and that no failure or delay of a logger stops or slows a run.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "@tinklet/sdk/testing";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { toExample } from "../data/examples.ts";
import { renderExample, type SupervisedDatum, toDatum } from "../data/render.ts";
import { runSupervised } from "../runs/open-run.ts";
import { RunFolder } from "../runs/run-folder.ts";
import { BigramService } from "../testing/bigram-service.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { crc32c, eventRecord } from "./event-file.ts";
import { LogQueue } from "./log-queue.ts";
import type { LoggedRow, LoggedRun, MetricsLogger } from "./metrics-logger.ts";
import { loggersNamed } from "./named.ts";
import { tensorboard } from "./tensorboard.ts";
import { trackio } from "./trackio.ts";
import { type LoggingOptions, withLoggers } from "./with-loggers.ts";

const data = {
  train: ["bread", "table", "stone", "river", "cloud"].map((text) => {
    const example = toExample({ text }, { file: "d", line: 1 });
    return toDatum(renderExample(example, letterTokenizer())) as SupervisedDatum;
  }),
  test: [],
  digest: "abc",
};
const settings = { baseModel: "bigram", data, learningRate: 0.5, batchSize: 1, epochs: 2, evalEvery: 0, saveEvery: 4 };
const made: string[] = [];
const newPlace = async () => {
  made.push(await mkdtemp(join(tmpdir(), "tinklet-log-")));
  return made.at(-1) as string;
};
const newFolder = async () => join(await newPlace(), "mine");
afterAll(() => Promise.all(made.map((folder) => rm(folder, { recursive: true }))));
afterEach(() => void vi.unstubAllEnvs());

/** A run to its end; advances the clock, if there is one. */
async function run(loggers: readonly MetricsLogger[], options: LoggingOptions = {}, folder?: string) {
  const path = folder ?? (await newFolder());
  const loop = withLoggers(
    runSupervised({ ...settings, service: new BigramService(), folder: path }),
    loggers,
    options,
  );
  let ended = false;
  const types: string[] = [];
  const running = (async () => {
    for await (const { type } of loop) types.push(type);
  })().finally(() => {
    ended = true;
  });
  if (options.clock instanceof FakeClock) while (!ended) await options.clock.advance(1000);
  await running;
  return { path, types, metrics: await readFile(join(path, "metrics.jsonl"), "utf8") };
}

const row = (step: number): LoggedRow => ({ step, timeMs: 0, metrics: { loss: step } });
const place: LoggedRun = { name: "r", folder: "f", config: {}, startStep: 0 };

describe("withLoggers", () => {
  it("tells every row of metrics, and times besides, to several loggers at once", async () => {
    const seen: LoggedRow[][] = [[], []];
    const runs: LoggedRun[] = [];
    const loggers = seen.map((rows, at) => ({
      name: `l${at}`,
      open: (opened: LoggedRun) => {
        runs.push(opened);
        return { write: async (written: readonly LoggedRow[]) => void rows.push(...written) };
      },
    }));
    const { path, metrics } = await run(loggers, { name: "other" });
    const told = seen[0]
      ?.filter(({ metrics: of }) => !("time/total" in of))
      .map(({ step, metrics: of }) => ({ step, ...of }));
    expect(told).toEqual(await RunFolder.at(path).readMetrics());
    expect(seen[0]?.filter(({ metrics: of }) => "time/total" in of).map(({ step }) => step)).toEqual([
      ...Array(10).keys(),
    ]);
    expect(seen[1]).toEqual(seen[0]);
    expect(runs[0]).toMatchObject({ name: "other", folder: path, startStep: 0, config: { model_name: "bigram" } });
    expect(metrics).toBe((await run([])).metrics);
  });

  it.each<[string, MetricsLogger["open"], RegExp]>([
    ["throws", () => ({ write: () => Promise.reject(new Error("no route")) }), /no route\. The run continues/],
    [
      "throws at once",
      () => ({
        write: () => {
          throw new Error("no route");
        },
      }),
      /no route/,
    ],
    ["cannot be opened", () => Promise.reject(new Error("no key")), /no key/],
    ["hangs", () => ({ write: () => new Promise(() => {}) }), /took more than 30000 ms|20 rows/],
    ["never opens", () => new Promise(() => {}), /took more than 30000 ms|20 rows/],
    [
      "hangs at its end",
      () => ({ write: () => Promise.reject(new Error("no")), close: () => new Promise(() => {}) }),
      /no/,
    ],
  ])("continues with a logger that %s, beside one that works", async (_, open, said) => {
    const warnings: string[] = [];
    const rows: LoggedRow[] = [];
    const works: MetricsLogger = { name: "works", open: () => ({ write: async (all) => void rows.push(...all) }) };
    const clock = new FakeClock();
    const options = { clock, onWarning: (text: string) => void warnings.push(text) };
    const { metrics, types } = await run([{ name: "broken", open }, works], options);
    expect(metrics).toBe((await run([])).metrics);
    expect(types.at(-1)).toBe("done");
    expect(rows.length).toBe(20); // ten steps, with their times
    expect(warnings[0]).toMatch(said);
    expect(warnings.at(-1)).toBe("broken: 20 rows of mine were not logged");
    expect(warnings.length).toBeLessThanOrEqual(2);
    expect(clock.pending).toBe(0); // nothing keeps the process
  });

  it("closes the loop and the loggers when the consumer stops iterating", async () => {
    let closed = 0;
    const logger: MetricsLogger = {
      name: "l",
      open: () => ({ write: async () => {}, close: async () => void closed++ }),
    };
    const folder = await newFolder();
    for await (const { type } of withLoggers(runSupervised({ ...settings, service: new BigramService(), folder }), [
      logger,
    ]))
      if (type === "checkpoint") break;
    expect(closed).toBe(1);
    await RunFolder.at(folder).appendMetrics({ step: 99 }); // the lock was given back
  });

  it("passes on what the loop throws, and a warning that throws does not", async () => {
    const failing = (async function* () {
      yield { type: "start", run: await RunFolder.open(await newFolder()), startStep: 0 };
      throw new Error("of the loop");
    })();
    await expect(async () => {
      for await (const _ of withLoggers(failing, [{ name: "l", open: () => Promise.reject(new Error("x")) }]));
    }).rejects.toThrow("of the loop");
    const onWarning = () => {
      throw new Error("of the warning");
    };
    expect((await run([{ name: "l", open: () => Promise.reject(new Error("x")) }], { onWarning })).types.at(-1)).toBe(
      "done",
    );
  });
});

describe("the queue", () => {
  it("is bounded: the oldest rows go, counted", async () => {
    const clock = new FakeClock();
    const rows: number[] = [];
    let open = (): void => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const write = async (all: readonly LoggedRow[]) => {
      await gate;
      rows.push(...all.map(({ step }) => step));
    };
    const queue = new LogQueue({ name: "l", open: () => ({ write }) }, place, {
      clock,
      maxRows: 50,
      onWarning: () => {},
    });
    for (let step = 0; step < 20; step++) queue.push(row(step));
    await clock.advance(0); // these are under way
    for (let step = 20; step < 500; step++) queue.push(row(step));
    open();
    await queue.close();
    expect(rows).toEqual([...Array(20).keys(), ...Array.from({ length: 50 }, (_, at) => 450 + at)]);
    expect(queue.dropped).toBe(430);
  });

  it("tries again after a pause, in order, and gives rows up after five tries", async () => {
    const clock = new FakeClock();
    const warnings: string[] = [];
    const tried: number[][] = [];
    let failures = 3;
    const write = async (all: readonly LoggedRow[]) => {
      tried.push(all.map(({ step }) => step));
      if (failures-- > 0) throw new Error("busy");
    };
    const queue = new LogQueue({ name: "l", open: () => ({ write }) }, place, {
      clock,
      onWarning: (text) => warnings.push(text),
    });
    queue.push(row(0));
    await clock.advance(1);
    queue.push(row(1));
    await clock.advance(60_000);
    expect(tried).toEqual([[0], [0, 1], [0, 1], [0, 1]]);
    failures = 5;
    queue.push(row(2));
    await clock.advance(60_000);
    queue.push(row(3));
    await clock.advance(60_000);
    await queue.close();
    expect(tried.slice(4)).toEqual([[2], [2], [2], [2], [2], [3]]);
    expect(warnings).toEqual([
      "l: busy. The run continues; its own files have every row.",
      "l: 1 rows of r were not logged",
    ]);
  });
});

describe("tensorboard", () => {
  it("has the checksum that the standard gives", () => {
    expect(crc32c(Buffer.from("123456789"))).toBe(0xe3069283);
  });

  it("writes records that say what they hold", () => {
    // Event { wall_time: 1.5, step: 300, summary { value { tag: "a", simple_value: 0.5 } } }
    const record = eventRecord({ timeMs: 1500, step: 300 }, { scalars: { a: 0.5 } });
    expect(record.subarray(12, -4).toString("hex")).toBe("09000000000000f83f10ac022a0a0a080a0161150000003f");
    expect(record.readBigUInt64LE()).toBe(BigInt(record.length - 16));
  });

  it("puts one event file into the run's folder each time that the run is resumed", async () => {
    const { path } = await run([tensorboard()]);
    const files = (await readdir(path)).filter((name) => name.startsWith("events.out.tfevents."));
    expect(files.length).toBe(1);
    const bytes = await readFile(join(path, files[0] as string));
    expect(bytes.toString("latin1")).toContain("brain.Event:2");
    expect(bytes.toString("latin1").match(/train_mean_nll/g)?.length).toBe(10);
  });
});

describe("trackio", () => {
  const sent: { url: string; init: RequestInit; body: { logs: Record<string, unknown>[]; hf_token: unknown } }[] = [];
  let status = 200;
  const fetch = (async (url: URL, init: RequestInit) => {
    sent.push({ url: url.href, init, body: JSON.parse(init.body as string) });
    return new Response(status === 200 ? '{"data":null}' : '{"error":"A write_token is required"}', { status });
  }) as unknown as typeof globalThis.fetch;
  afterEach(() => {
    sent.length = 0;
    status = 200;
  });

  it("posts rows with ids that are the same when the run is resumed", async () => {
    vi.stubEnv("HF_TOKEN", "hf_secret");
    const { path } = await run([
      trackio({ url: "http://localhost:7/x?write_token=abc&project=p", project: "p", fetch }),
    ]);
    const logs = sent.flatMap(({ body }) => body.logs);
    expect(sent[0]).toMatchObject({ url: "http://localhost:7/x/api/bulk_log", body: { hf_token: null } });
    expect(sent[0]?.init.headers).toEqual({ "content-type": "application/json", "x-trackio-write-token": "abc" });
    expect(logs[0]).toMatchObject({ project: "p", run: "mine", step: 0, config: { model_name: "bigram" } });
    expect(new Set(logs.map(({ log_id }) => log_id)).size).toBe(20);
    const before = logs.map(({ log_id }) => log_id);
    sent.length = 0;
    await rm(join(path, "checkpoints.jsonl")); // the run begins again, in the same folder
    await run([trackio({ url: "http://localhost:7/x", fetch })], {}, path);
    expect(sent.flatMap(({ body }) => body.logs.map(({ log_id }) => log_id))).toEqual(before);
  });

  it("gives a Hugging Face token to a Space alone", async () => {
    vi.stubEnv("HF_TOKEN", "hf_secret");
    vi.stubEnv("TRACKIO_SPACE_ID", "Me/my_board");
    const writer = await trackio({ fetch }).open({ ...place, folder: await newPlace() });
    await writer.write(
      [{ step: 1, timeMs: 0, metrics: { a: Number.NaN, b: Number.NEGATIVE_INFINITY } }],
      new AbortController().signal,
    );
    expect(sent[0]).toMatchObject({
      url: "https://me-my-board.hf.space/api/bulk_log",
      init: { headers: { authorization: "Bearer hf_secret" } },
      body: { hf_token: "hf_secret", logs: [{ metrics: { a: "NaN", b: "-Infinity" } }] },
    });
  });

  it("says what the server said, and names no token", async () => {
    status = 400;
    const warnings: string[] = [];
    const url = "http://localhost:7/?write_token=abc";
    await run([trackio({ url, fetch })], { clock: new FakeClock(), onWarning: (text) => void warnings.push(text) });
    expect(warnings[0]).toMatch(/^trackio: http:\/\/localhost:7 answered 400: .*write_token is required/);
    expect(warnings.join()).not.toContain("abc");
  });

  it("wants a server before the run begins", () => {
    vi.stubEnv("TRACKIO_SERVER_URL", "");
    expect(() => trackio()).toThrow(/Trackio server is not named/);
    expect(() => trackio({ url: "localhost:7860" })).toThrow(/http:\/\//);
    expect(() => loggersNamed(["tensorbord"])).toThrow(/tensorboard, trackio/);
    expect(loggersNamed(["tensorboard", "tensorboard"]).length).toBe(1);
  });
});
