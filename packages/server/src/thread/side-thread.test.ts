/** The side thread: started when needed, ended when idle, restarted when it dies. */
import type { Worker } from "node:worker_threads";
import { compressZstd } from "@tinklet/wire";
import { FakeClock } from "@tinklet/wire/testing";
import { expect, onTestFinished, test } from "vitest";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import {
  createSideThread,
  startSideThread,
  TaskError,
  ThreadClosed,
  ThreadDied,
  ThreadTimeout,
} from "./side-thread.ts";

/** A side thread, and all workers that it started. */
function open() {
  const clock = new FakeClock();
  const workers: Worker[] = [];
  /** Called with each worker that was started. */
  const hooks: { started?: (worker: Worker) => void } = {};
  const start = async () => {
    const worker = await startSideThread();
    workers.push(worker);
    hooks.started?.(worker);
    return worker;
  };
  const thread = createSideThread({ clock, start });
  onTestFinished(() => thread.close());
  return { clock, thread, workers, hooks };
}

const bytes = Uint8Array.from({ length: 50_000 }, (_, i) => i % 251);
const packed = await compressZstd(bytes);
const unpack = { bytes: packed, capacity: bytes.length };

test("runs tasks in order, and rejects one that throws with its error", async () => {
  const { thread, workers } = open();
  const [first, bad, second] = await Promise.allSettled([
    thread.run("unpackZstd", unpack),
    thread.run("readLoss", JSON.stringify({ inputs: [], graph: { nodes: [] } })),
    thread.run("unpackZstd", { ...unpack, bytes: packed.slice(0, -9) }),
  ]);
  expect(first).toMatchObject({ value: bytes });
  expect(bad).toMatchObject({ reason: new TaskError("CustomLossError", "a loss must have 1 to 16 inputs, got 0") });
  expect(second).toMatchObject({ value: undefined });
  expect(workers).toHaveLength(1);
});

test("tasks submitted while the thread starts are sent to it once", async () => {
  const { thread, hooks } = open();
  const posted: unknown[] = [];
  hooks.started = (worker) => {
    const post = worker.postMessage.bind(worker);
    worker.postMessage = (message: { readonly id: number }) => {
      posted.push(message.id);
      post(message);
    };
  };
  await Promise.all([1, 2, 3].map(() => thread.run("unpackZstd", unpack)));
  await thread.run("unpackZstd", unpack);
  expect(posted).toEqual([1, 2, 3, 4]);
});

test("a task whose thread dies is retried on another; one that kills both is rejected, and the others continue", async () => {
  const { thread, workers, hooks } = open();
  hooks.started = (worker) => {
    if (workers.length === 1) void worker.terminate();
  };
  expect(await thread.run("unpackZstd", unpack)).toEqual(bytes);
  expect(workers).toHaveLength(2);

  const fatal = open();
  fatal.hooks.started = (worker) => {
    if (fatal.workers.length <= 2) void worker.terminate();
  };
  const [refused, after] = await Promise.allSettled([
    fatal.thread.run("unpackZstd", unpack),
    fatal.thread.run("unpackZstd", unpack),
  ]);
  expect(refused).toMatchObject({ reason: expect.any(ThreadDied) });
  expect(after).toMatchObject({ value: bytes });
});

test("a task that exceeds its time limit ends with its thread, and the tasks after it run on the next", async () => {
  const { clock, thread, workers } = open();
  const settings = JSON.parse(tinyTokenizer["tokenizer_config.json"]);
  const chat_template = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
  const files = { ...tinyTokenizer, "tokenizer_config.json": JSON.stringify({ ...settings, chat_template }) };
  await thread.run("openTokenizer", { name: "m", files });
  const conversation = { messages: [{ role: "user", content: "x" }] };
  const limited = thread.run("renderChat", { name: "m", conversation, longest: 1000 }, { limitMs: 5000 });
  const behind = thread.run("unpackZstd", unpack, { limitMs: 5000 });
  const refused = expect(limited).rejects.toThrow(new ThreadTimeout("renderChat did not end within 5000 ms"));
  await clock.advance(4999);
  const gone = new Promise((resolve) => workers[0]!.once("exit", resolve));
  await clock.advance(1);
  await refused;
  await gone;
  expect(await behind).toEqual(bytes); // its time limit began when it started
  expect(workers).toHaveLength(2);
  expect(await thread.run("unpackZstd", unpack, { limitMs: 5000 })).toEqual(bytes);
  await clock.advance(10_000);
  expect(await thread.run("unpackZstd", unpack)).toEqual(bytes);
  expect(workers).toHaveLength(2);
});

test("ends when idle, and starts again with the next task", async () => {
  const { clock, thread, workers } = open();
  await thread.run("unpackZstd", unpack);
  const gone = new Promise((resolve) => workers[0]!.once("exit", resolve));
  await clock.advance(60_000);
  await gone;
  expect(await thread.run("unpackZstd", unpack)).toEqual(bytes);
  expect(workers).toHaveLength(2);
});

test("the end of an idle thread does not affect the thread that replaces it at once", async () => {
  const { clock, thread, workers } = open();
  await thread.run("unpackZstd", unpack);
  const gone = new Promise((resolve) => workers[0]!.once("exit", resolve));
  await clock.advance(60_000);
  const next = thread.run("unpackZstd", unpack);
  await gone;
  expect(await next).toEqual(bytes);
  expect(await thread.run("unpackZstd", unpack)).toEqual(bytes);
  expect(workers).toHaveLength(2);
});

test("close rejects running tasks, and later ones", async () => {
  const { thread } = open();
  const under = thread.run("unpackZstd", unpack);
  const refused = expect(under).rejects.toThrow(ThreadClosed);
  await thread.close();
  await refused;
  await expect(thread.run("unpackZstd", unpack)).rejects.toThrow(ThreadClosed);
});
