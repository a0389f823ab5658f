// The streams drill: one key opens 10,000 streams that nobody reads; the server takes as many as its limits say and refuses the others by
// name. Meanwhile another key chats: how many steps of the engine does its first token wait? Then all of them leave: what is left?
//
//   node test/drills/streams/streams.mjs [--streams 10000] [--chats 20]
//
// Ends with 1 when anything is not as it must be. Linux only; needs a limit of open files above the number of streams (ulimit -n).
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { cpus } from "node:os";
import { bundle } from "../../fixtures/programs/bundle.mjs";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : Number(process.argv[at + 1]);
};
const asked = option("streams", 10_000);
const chats = option("chats", 20);
/** Of one key, by the server's own limits. */
const limit = 1024;
/** Streams that are being opened at once: fewer than a listening socket lets wait. */
const wave = 250;

const files = Number(execFileSync("sh", ["-c", "ulimit -n"], { encoding: "utf8" }));
const streams = Math.min(asked, files - 500);
if (streams < asked) console.log(`open files are limited to ${files}: ${streams} streams`);

const child = spawn(process.execPath, ["--expose-gc", await bundle("test/drills/streams/streams-main.ts")], {
  stdio: ["ignore", "inherit", "inherit", "ipc"],
});
process.on("exit", () => child.kill("SIGKILL"));
const waiting = new Map();
const unhandled = [];
child.on("message", (message) => {
  if (message.type === "unhandled") unhandled.push(message.error);
  waiting.get(message.type)?.(message);
});
const next = (type) => new Promise((resolve) => waiting.set(type, resolve));
const { url, ends } = await next("listening");
const state = () => {
  const answer = next("state");
  child.send("state");
  return answer;
};

const { hostname, port } = new URL(url);
const bodyOf = (maxTokens, stream) =>
  JSON.stringify({
    model: "tinklet/base",
    messages: [{ role: "user", content: "Count as far as you can." }],
    max_tokens: maxTokens,
    temperature: 2,
    logit_bias: Object.fromEntries(ends.map((id) => [id, -100])), // it does not end by itself
    stream,
  });
const chat = async () => {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: "Bearer tml-other", "content-type": "application/json", connection: "close" },
    body: bodyOf(4, false),
  });
  if (answer.status !== 200) throw new Error(`the other key got ${answer.status}: ${await answer.text()}`);
  return answer.json();
};

const failures = [];
const check = (holds, what) => {
  console.log(`${holds ? "ok   " : "FAIL "} ${what}`);
  if (!holds) failures.push(what);
};

await chat(); // what is opened once is open
await chat();
const before = await state();
const body = bodyOf(400, true);
const request = `POST /v1/chat/completions HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer tml-hostile\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
const sockets = [];
const statuses = new Map();
let untyped = 0;
const started = performance.now();
/** Opens one and leaves it unread behind its first bytes; `answered` is settled by them. */
const openOne = async () => {
  const socket = connect(Number(port), hostname).on("error", () => {});
  sockets.push(socket);
  await once(socket, "connect");
  const answered = once(socket, "data").then(([data]) => {
    socket.pause();
    const text = data.toString("latin1");
    const status = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? "none";
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (status === "429" && !text.includes("too_many_chats")) untyped++;
  });
  socket.write(request);
  return answered;
};
const answers = [];
for (let first = 0; first < streams; first += wave) {
  const opened = Array.from({ length: Math.min(wave, streams - first) }, openOne);
  answers.push(...opened);
  // Those that are let in are answered with their first token, or with a sign of life. More at once than a listening socket lets wait would be
  // lost in the kernel, and the server would never hear of them.
  await Promise.race([Promise.all(opened), new Promise((resolve) => setTimeout(resolve, 15_000))]);
}
const refusals = () => statuses.get("429") ?? 0;
/** All who were not let in have heard so, and those who were wait or are drawn. On a busy machine that takes its time. */
for (let silent = 0, known = -1; refusals() < streams - limit && silent < 12; ) {
  silent = refusals() === known ? silent + 1 : 0;
  known = refusals();
  await new Promise((resolve) => setTimeout(resolve, 5000));
}
const during = await state();
console.log(
  `${streams} streams sent in ${((performance.now() - started) / 1000).toFixed(0)} s; the server has ${during.sockets} sockets, ${during.onEngine} samples on its engine`,
);
for (let i = 0; i < chats; i++) await chat();
const { delays, activeSequences, waitingSequences, most } = await state();
const measured = delays.slice(2);
console.log(
  `answers so far: ${[...statuses].map(([status, count]) => `${count} × ${status}`).join(", ")}; the engine draws ${activeSequences} sequences, ${waitingSequences} wait in it, ${most} at most were there`,
);
console.log(`steps before the first token of ${measured.length} chats of the other key: ${measured.join(" ")}`);
check(refusals() === streams - limit, `${streams - limit} refused, ${limit} let in (${refusals()} × 429)`);
check(untyped === 0, "every refusal is 429 with the code too_many_chats");
check(activeSequences > 0, "streams were being drawn all the while");
check(
  measured.length === chats && measured.every((steps) => steps <= 1),
  "no chat of the other key waited for more than a step",
);

for (const socket of sockets) socket.destroy();
let after = await state();
for (let i = 0; i < 120 && (after.sockets > before.sockets || after.onEngine + after.activeSequences > 0); i++) {
  await new Promise((resolve) => setTimeout(resolve, 500));
  after = await state();
}
await chat();
after = await state();
check(after.sockets <= before.sockets, `sockets: ${before.sockets} before, ${after.sockets} after`);
check(after.onEngine + after.activeSequences + after.waitingSequences === 0, "no sequence is left in the engine");
console.log(`room kept for the cache of sequences: ${before.cacheBytes} bytes before, ${after.cacheBytes} after`);
console.log(
  `heap: ${(before.heapBytes / 2 ** 20).toFixed(1)} MiB before, ${(after.heapBytes / 2 ** 20).toFixed(1)} MiB after; ${cpus().length} cores, Node ${process.version}`,
);
check(unhandled.length === 0, `unhandled rejections: ${unhandled.length}`);
child.send("stop");
await once(child, "exit");
console.log(failures.length === 0 ? "all of it held" : `${failures.length} did not hold`);
process.exit(failures.length === 0 ? 0 : 1);
