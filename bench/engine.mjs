// The engine side by side with PyTorch + transformers + PEFT: training, sampling, loading, memory. Both sides run in processes of
// their own and take turns, so that a noisy moment hits both.
//   npm run bench -- engine [10M] [135M] [596M] [load] [repeats=5]
import { execFileSync } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { bundle } from "../test/fixtures/programs/bundle.mjs";
import { torchPython } from "../test/interop/torch/venv.mjs";
import { checkpoint, GIGABYTE, SHAPES, trainingFlops } from "./engine/models.mjs";
import { startPeer } from "./engine/peer.mjs";

const RANK = 16;
const BATCHES = { "10M": 4, "135M": 2, "596M": 1 };
const TARGETS = { "10M": 1.3, "135M": 1.3, "596M": 1.2 };

const limits = (root, threads) => {
  const folder = join(root, ".cache", "bench");
  mkdirSync(folder, { recursive: true });
  const binary = join(folder, "limits");
  try {
    execFileSync(process.env.CC ?? "cc", [
      "-O3",
      "-march=native",
      "-pthread",
      join(root, "bench/engine/limits.c"),
      "-o",
      binary,
    ]);
    return JSON.parse(execFileSync(binary, [String(threads)]).toString());
  } catch {
    return undefined; // no compiler: no share of the peak can be given
  }
};

const sorted = (values) => [...values].sort((a, b) => a - b);
const median = (values) => sorted(values)[values.length >> 1];
const spread = (values, digits) => `${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)}`;
const round = (value, digits) => Number(value.toFixed(digits));

/** Interleaved repeats of one measurement on both sides: tokens per second each. */
const sideBySide = async (peers, repeats, name, given) => {
  console.error(`measuring ${name} ${JSON.stringify(given)}`);
  const rates = peers.map(() => []);
  for (let repeat = -1; repeat < repeats; repeat++) {
    for (const [index, peer] of peers.entries()) {
      const { seconds, tokens } = await peer.ask(name, given);
      if (repeat >= 0) for (const time of seconds) rates[index].push(tokens / time); // the first round warms up
    }
  }
  return rates;
};

/** From opening a file of a gigabyte to the first sampled token, each time in a process of its own. */
const loading = async (root, threads, repeats) => {
  const folder = checkpoint(root, "1GB", GIGABYTE);
  const seconds = [];
  for (let repeat = -1; repeat < repeats; repeat++) {
    const ours = await startPeer(process.execPath, [
      join(root, "bench/engine/ours.mjs"),
      folder,
      JSON.stringify({ threads }),
    ]);
    const first = await ours.ask("generate", { batch: 1, prompt: 8, new: 1 });
    if (repeat >= 0) seconds.push(ours.ready.loadSeconds + first.seconds[0]); // the first round warms the file cache
    await ours.quit();
  }
  return {
    name: "load a checkpoint to its first token",
    value: round(median(seconds), 2),
    unit: "s",
    spread: spread(seconds, 2),
    target: "< 3",
    note: `${(statSync(join(folder, "model.safetensors")).size / 1e9).toFixed(2)} GB of float32`,
  };
};

export default async ({ root, args }) => {
  const threads = availableParallelism();
  const repeats = Number(args.find((arg) => arg.startsWith("repeats="))?.slice(8) ?? 5);
  const chosen = Object.keys(SHAPES).filter((name) => args.includes(name));
  const python = torchPython();
  const peak = limits(root, threads);
  const rows = [];
  if (peak) {
    rows.push({ name: "FMA limit", value: peak.gflops, unit: "GFLOP/s", note: `${threads} threads` });
    rows.push({ name: "memory read limit", value: peak.gbytes, unit: "GB/s" });
    const file = await bundle("bench/engine/product.ts");
    const { gflops } = JSON.parse(execFileSync(process.execPath, [file, String(threads)]).toString());
    rows.push({
      name: "large product, onnxruntime",
      value: gflops,
      unit: "GFLOP/s",
      ratio: round(gflops / peak.gflops, 2),
      target: "0.6–1",
      note: "of the FMA limit: above 1 the limit would be measured wrongly",
    });
  }
  const everything = chosen.length === 0 && !args.includes("load");
  if (everything || args.includes("load")) rows.push(await loading(root, threads, repeats));
  for (const name of everything ? Object.keys(SHAPES) : chosen) {
    const shape = SHAPES[name];
    const folder = checkpoint(root, name);
    const ours = await startPeer(process.execPath, [
      join(root, "bench/engine/ours.mjs"),
      folder,
      JSON.stringify({ threads }),
    ]);
    const torch = await startPeer(python, [
      join(root, "bench/engine/torch_peer.py"),
      JSON.stringify(shape),
      String(threads),
    ]);
    const compare = (label, [mine, theirs], target, note) =>
      rows.push({
        name: `${name} ${label}`,
        value: round(median(mine), 1),
        unit: "tokens/s",
        spread: spread(mine, 0),
        ratio: round(median(mine) / median(theirs), 2),
        ...(target ? { target } : {}),
        note: `PyTorch ${median(theirs).toFixed(0)} (${spread(theirs, 0)})${note ? `; ${note}` : ""}`,
      });
    const gigabytes = statSync(join(folder, "model.safetensors")).size / 1e9;
    rows.push({
      name: `${name} load`,
      value: round(ours.ready.loadSeconds, 2),
      unit: "s",
      note: `${gigabytes.toFixed(2)} GB checkpoint, runtime ${ours.ready.runtime}`,
    });

    const uniform = Array.from({ length: BATCHES[name] }, () => 256);
    // A turn lasts about a second, so that neither side is measured mostly while it gets its caches back from the other.
    const steps = name === "10M" ? 3 : 1;
    const training = await sideBySide([ours, torch], repeats, "train", { lengths: uniform, steps });
    const flops = trainingFlops(shape, RANK, 256);
    const share = peak
      ? `${((100 * median(training[0]) * flops) / 1e9 / peak.gflops).toFixed(0)} % of the FMA limit`
      : "";
    compare(`training, ${uniform.length} × 256`, training, `≥ ${TARGETS[name]}`, share);

    // About as many tokens in unequal pieces.
    const mixed = uniform.length === 1 ? [140, 70, 46] : uniform.flatMap((_, i) => (i % 2 ? [200, 56] : [180, 33, 43]));
    const unequal = await sideBySide([ours, torch], repeats, "train", { lengths: mixed, steps });
    const perToken = median(training[0]) / median(unequal[0]) - 1;
    compare(
      "training, mixed lengths",
      unequal,
      undefined,
      `${(100 * perToken).toFixed(0)} % slower per token than uniform (target ≤ 15 %)`,
    );
    const withZeros = (zeroShare) => ({ ask: (what, given) => ours.ask(what, { ...given, zeroShare }) });
    const weights = [withZeros(0.75), withZeros(0)];
    const [sparse, full] = await sideBySide(weights, repeats, "train", { lengths: uniform, steps });
    rows.push({
      name: `${name} training, 75 % of weights 0`,
      value: round(median(sparse), 1),
      unit: "tokens/s",
      spread: spread(sparse, 0),
      ratio: round(median(sparse) / median(full), 2),
      target: "≥ 1",
      note: "against the full batch, in turns",
    });
    for (const batch of name === "596M" ? [8] : [1, 8, 32]) {
      const given = { batch, prompt: 32, new: name === "10M" ? 64 : 16 };
      const sampling = await sideBySide(
        [ours, torch],
        Math.min(repeats, name === "10M" ? repeats : 3),
        "generate",
        given,
      );
      const target = name === "10M" && batch === 8 ? "≥ 5" : undefined;
      compare(`sampling, ${batch} sequences`, sampling, target);
    }
    await torch.quit();
    const gaps = [];
    for (let repeat = -1; repeat < repeats; repeat++) {
      const gap = await ours.ask("loop", { lengths: uniform, steps: name === "10M" ? 10 : 2, batch: 8, new: 16 });
      if (repeat >= 0) gaps.push(gap);
    }
    const longestOf = (side) => Math.max(...gaps.map((gap) => gap[side]));
    rows.push({
      name: `${name} caller's event loop, longest hold-up`,
      value: round(longestOf("own"), 1),
      unit: "ms",
      target: "≤ 20",
      note: `its own work, while the engine trains and samples; ${round(longestOf("gap"), 1)} ms with the wait for a core that the engine's threads are using`,
    });
    await ours.quit();
    const long = { "135M": { lengths: [512, 512], limit: 2.5 }, "596M": { lengths: [512], limit: 5.5 } }[name];
    if (!long) continue;
    // Training alone, in a fresh process: what sampling keeps would only blur the figure.
    const fresh = await startPeer(process.execPath, [
      join(root, "bench/engine/ours.mjs"),
      folder,
      JSON.stringify({ threads }),
    ]);
    await fresh.ask("train", { lengths: long.lengths, steps: 2 });
    const { peakBytes } = await fresh.ask("memory");
    rows.push({
      name: `${name} peak memory`,
      value: round(peakBytes / 1e9, 2),
      unit: "GB",
      target: `≤ ${long.limit}`,
      note: `two training steps of ${long.lengths.length} × 512`,
    });
    await fresh.quit();
  }
  return { rows };
};
