// The wire layer against the official Python SDK and against a plain copy of memory, on the two messages that matter: a
// training batch of 1,024 data × 1,024 tokens with weights, and a sample of 64 sequences × 4,096 tokens with log-probs.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { ensureVenv } from "../test/interop/venv.mjs";
import { oracles } from "../test/interop/versions.mjs";
import { cpuMs, median, round, spread, times } from "./measure.mjs";

const [data, length] = [1024, 1024];
const [sequences, tokens] = [64, 4096];

export default async function bench({ root }) {
  const dist = pathToFileURL(join(root, "packages/wire/dist/index.js")).href;
  const wire = await import(dist);
  const python = ensureVenv(oracles[0].name, oracles[0].packages);

  const plain = Array.from({ length: data }, (_, i) => ({
    input: Array.from({ length }, (_unused, t) => (i * 31 + t * 7) % 150_000),
    targets: Array.from({ length }, (_unused, t) => (i * 31 + t * 7 + 7) % 150_000),
    weights: Array.from({ length }, (_unused, t) => (t % 4 === 0 ? 0 : 1)),
  }));
  const request = (batch) => ({
    modelId: "s:train:0",
    seqId: 1,
    forwardBackwardInput: { data: batch, lossFn: "cross_entropy" },
  });
  const build = () =>
    plain.map(
      ({ input, targets, weights }) =>
        new wire.Datum({
          modelInput: wire.ModelInput.fromInts(input),
          lossFnInputs: { target_tokens: targets, weights },
        }),
    );
  const typed = plain.map(
    ({ input, targets, weights }) =>
      new wire.Datum({
        modelInput: wire.ModelInput.fromInts(input),
        lossFnInputs: { target_tokens: BigInt64Array.from(targets, BigInt), weights: Float32Array.from(weights) },
      }),
  );
  const bytes = wire.encodeForwardBackwardRequest(request(typed));
  const response = wire.encodeSampleResponse(
    new wire.SampleResponse({
      sequences: Array.from(
        { length: sequences },
        (_, i) =>
          new wire.SampledSequence({
            stopReason: "length",
            tokens: Int32Array.from({ length: tokens }, (_unused, t) => (i * 131 + t) % 150_000),
            logprobs: Float32Array.from({ length: tokens }, (_unused, t) => -((t * 13 + i) % 97) / 10),
          }),
      ),
    }),
  );
  const responseFile = join(mkdtempSync(join(tmpdir(), "tinklet-bench-")), "response.bin");
  writeFileSync(responseFile, response);

  const script = join(root, "bench/wire/python.py");
  const official = () =>
    JSON.parse(execFileSync(python, [script, responseFile, String(data), String(length)], { encoding: "utf8" }));
  // Python before and after ours, so that a change of the machine's mood shows in the spread
  const before = official();
  const fromPlain = times(() => wire.encodeForwardBackwardRequest(request(build())));
  const fromTyped = times(() => wire.encodeForwardBackwardRequest(request(typed)), { repeats: 21 });
  const copy = times(() => new Uint8Array(bytes), { repeats: 21 });
  const decode = times(() => wire.decodeForwardBackwardRequest(bytes));
  const lazy = times(() => wire.decodeSampleResponse(response), { repeats: 101, warmup: 20 });
  let sink = 0;
  const readAll = times(
    () => {
      for (const sequence of wire.decodeSampleResponse(response).sequences)
        sink += sequence.tokens.length + sequence.logprobs.length;
    },
    { repeats: 51, warmup: 20 },
  );
  const after = official();
  rmSync(dirname(responseFile), { recursive: true });
  if (sink === 0) throw new Error("nothing was read");

  const both = (key) => [...before[key], ...after[key]].sort((a, b) => a - b);
  const [theirBuild, theirLazy, theirRead] = [both("build_encode"), both("lazy"), both("read_all")];
  const megabytes = bytes.byteLength / 1e6;
  const rate = (ms) => round(megabytes / (ms / 1000), 0);

  const empty = join(root, "bench/wire/empty.mjs");
  const imports = join(root, "bench/wire/import.mjs");
  const cpu = { empty: [], sdk: [] };
  for (let i = 0; i < 15; i++) {
    cpu.empty.push(cpuMs(process.execPath, [empty]));
    cpu.sdk.push(cpuMs(process.execPath, [imports]));
  }
  const sorted = (values) => [...values].sort((a, b) => a - b);
  const [emptyMs, sdkMs] = [sorted(cpu.empty), sorted(cpu.sdk)];

  return {
    note: `Batch: ${data} × ${length} tokens with targets and weights, ${round(megabytes, 1)} MB. Sample: ${sequences} × ${tokens} tokens with log-probs, ${round(response.byteLength / 1e6, 1)} MB. Official SDK: ${oracles[0].version}.`,
    rows: [
      {
        name: "build + encode from plain arrays",
        value: round(median(fromPlain)),
        unit: "ms",
        spread: spread(fromPlain),
        ratio: `${round(median(theirBuild) / median(fromPlain), 1)}× faster than Python (${round(median(theirBuild), 0)} ms, ${spread(theirBuild, 0)})`,
        target: "≥ 5×",
        note: `${rate(median(fromPlain))} MB/s`,
      },
      {
        name: "encode from typed arrays",
        value: round(median(fromTyped)),
        unit: "ms",
        spread: spread(fromTyped),
        ratio: `${round(median(fromTyped) / median(copy), 2)}× a memory copy (${round(median(copy))} ms, ${spread(copy)})`,
        target: "≤ 3×",
        note: `${rate(median(fromTyped))} MB/s`,
      },
      {
        name: "decode the batch (server)",
        value: round(median(decode)),
        unit: "ms",
        spread: spread(decode),
        note: `${rate(median(decode))} MB/s`,
      },
      {
        name: "decode a sample, lazily",
        value: round(median(lazy), 3),
        unit: "ms",
        spread: spread(lazy, 3),
        ratio: `${round(median(lazy) / median(theirLazy), 2)}× Python's time (${round(median(theirLazy), 3)} ms, ${spread(theirLazy, 3)})`,
        target: "≤ 1×",
      },
      {
        name: "decode a sample and read all lists",
        value: round(median(readAll), 3),
        unit: "ms",
        spread: spread(readAll, 3),
        ratio: `${round(median(theirRead) / median(readAll), 1)}× less than Python (${round(median(theirRead), 2)} ms, ${spread(theirRead)})`,
        target: "≥ 5×",
      },
      {
        name: 'import "tinklet"',
        value: round(median(sdkMs), 0),
        unit: "ms of CPU",
        spread: spread(sdkMs, 0),
        ratio: `${round(median(sdkMs) / median(emptyMs), 2)}× an empty Node process (${round(median(emptyMs), 0)} ms, ${spread(emptyMs, 0)})`,
        target: "≤ 1.5×",
      },
    ],
  };
}
