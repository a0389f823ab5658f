// The engine on an NVIDIA GPU, side by side with PyTorch + transformers + PEFT on the same GPU. Both sides run in processes of their own
// and take turns; each side is measured with TF32 and with bfloat16, and the better of each is compared.
//   npm run bench -- gpu [--part train|rl|sampling|numbers|large|…] [shapes]
// On a machine without npm: `node bench/gpu.mjs --out ROWS.json --part …`, and here `npm run bench -- gpu --rows ROWS.json`.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { seededRandom } from "@tinklet/wire/entropy";
import { checkpoint, GPU_SHAPES } from "./engine/models.mjs";
import { startPeer } from "./engine/peer.mjs";

const PRECISIONS = ["tf32", "bfloat16"];
const THREADS = 8;

const sorted = (values) => [...values].sort((a, b) => a - b);
const median = (values) => sorted(values)[values.length >> 1];
const round = (value, digits = 0) => Number(value.toFixed(digits));
const spread = (values, digits = 0) => `${Math.min(...values).toFixed(digits)}–${Math.max(...values).toFixed(digits)}`;

const python = () => process.env.BENCH_PYTHON ?? "python3";

const startOurs = (root, name, options) =>
  startPeer(process.execPath, [
    join(root, "bench/engine/ours.mjs"),
    checkpoint(root, name, GPU_SHAPES[name]),
    JSON.stringify({ threads: THREADS, device: "cuda", ...options }),
  ]);

const startTorch = (root, name, precision) =>
  startPeer(python(), [
    join(root, "bench/engine/torch_peer.py"),
    JSON.stringify(GPU_SHAPES[name]),
    String(THREADS),
    "cuda",
    precision,
  ]);

/** Both sides at both precisions. */
const startAll = async (root, name, memoryBudgetBytes) => {
  const peers = [];
  for (const precision of PRECISIONS) {
    peers.push({ side: "ours", precision, ...(await startOurs(root, name, { precision, memoryBudgetBytes })) });
    peers.push({ side: "PyTorch", precision, ...(await startTorch(root, name, precision)) });
  }
  return peers;
};

/** In turns; the first round warms up. Tokens per second of each peer. */
const inTurns = async (peers, rounds, ask) => {
  const rates = peers.map(() => []);
  for (let turn = -1; turn < rounds; turn++) {
    for (const [index, peer] of peers.entries()) {
      const { seconds, tokens } = await ask(peer);
      if (turn >= 0) rates[index].push(tokens / median(seconds));
    }
  }
  return rates;
};

/** A row that compares the better precision of each side, and names all four rates. */
const compare = (part, name, peers, rates, { target, digits = 0, unit = "tokens/s" } = {}) => {
  const bestOf = (side) =>
    peers
      .map((peer, index) => ({ ...peer, rates: rates[index] }))
      .filter((peer) => peer.side === side)
      .sort((a, b) => median(b.rates) - median(a.rates))[0];
  const [ours, theirs] = [bestOf("ours"), bestOf("PyTorch")];
  const all = peers.map(
    ({ side, precision }, index) =>
      `${side} ${precision} ${median(rates[index]).toFixed(digits)} (${spread(rates[index], digits)})`,
  );
  return {
    part,
    name,
    value: round(median(ours.rates), digits),
    unit,
    spread: spread(ours.rates, digits),
    ratio: round(median(ours.rates) / median(theirs.rates), 2),
    ...(target ? { target } : {}),
    note: all.join("; "),
  };
};

const inside = async (root, ...args) => {
  // Bundled beforehand for a machine without esbuild, or bundled now.
  const made = join(root, "inside/main.js");
  const file = existsSync(made)
    ? made
    : await (await import("../test/fixtures/programs/bundle.mjs")).bundle("bench/gpu/inside.ts");
  return JSON.parse(
    execFileSync(process.execPath, [file, ...args], { maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "inherit"] }),
  );
};

const policyData = ({ prompts, promptLength, answers, answerLength, vocab }) => {
  const random = seededRandom(7);
  const ids = (length) => Array.from({ length }, () => Math.floor(random() * vocab));
  return Array.from({ length: prompts }, () => ids(promptLength)).flatMap((prompt) =>
    Array.from({ length: answers }, (_, i) => ({
      tokens: [...prompt, ...ids(answerLength)],
      prompt: promptLength,
      advantage: i % 2 ? 0.5 : -0.5,
    })),
  );
};

const parts = {
  async train({ root, shapes }) {
    const batches = { "135M": 32, "596M": 16, "1.7B": 16 };
    const rows = [];
    for (const name of shapes.filter((shape) => batches[shape])) {
      const peers = await startAll(root, name, 30e9);
      const lengths = Array(batches[name]).fill(256);
      const rates = await inTurns(peers, 5, ({ ask }) => ask("train", { lengths, steps: 3 }));
      rows.push(
        compare("train", `${name} training, ${lengths.length} × 256`, peers, rates, { target: "≥ 0.7, goal 1" }),
      );
      for (const { quit } of peers) await quit();
    }
    return rows;
  },

  async rl({ root, shapes }) {
    const rows = [];
    for (const name of shapes.filter((shape) => shape === "135M" || shape === "596M")) {
      const peers = await startAll(root, name, 40e9);
      for (const answerLength of name === "135M" ? [64, 256] : [64]) {
        const { vocab } = GPU_SHAPES[name];
        const data = policyData({ prompts: 48, promptLength: 480, answers: 8, answerLength, vocab });
        const rates = await inTurns(peers, 3, ({ ask, side }) =>
          ask("policy", { data, ...(side === "ours" ? {} : { batch: 32 }) }),
        );
        const label = `${name} RL step, 48 prompts of 480 × 8 answers of ${answerLength}`;
        rows.push(compare("rl", label, peers, rates, answerLength === 64 ? { target: "≥ 3" } : {}));
      }
      for (const { quit } of peers) await quit();
    }
    return rows;
  },

  async sampling({ root, shapes }) {
    const rows = [];
    for (const name of shapes.filter((shape) => shape === "135M" || shape === "596M")) {
      const peers = await startAll(root, name, 30e9);
      for (const batch of [1, 8, 32, 128]) {
        const rates = await inTurns(peers, 3, ({ ask }) => ask("generate", { batch, prompt: 448, new: 64 }));
        const target = batch < 32 ? "≥ 2" : "goal 5";
        rows.push(compare("sampling", `${name} sampling, ${batch} × (448 + 64)`, peers, rates, { target }));
      }
      const latencies = await inTurns(peers, 3, async ({ ask, side }) =>
        side === "ours"
          ? ask("firstToken", { prompt: 448, repeats: 3 })
          : ask("generate", { batch: 1, prompt: 448, new: 1 }),
      );
      rows.push(
        compare("sampling", `${name} first tokens per second, prompt of 448`, peers, latencies, {
          digits: 1,
          unit: "1/s",
        }),
      );
      for (const { quit } of peers) await quit();
    }
    return rows;
  },

  async numbers({ root }) {
    const rows = [];
    for (const precision of ["float32", ...PRECISIONS]) {
      for (const { model, what, cpu, gpu, ratio } of await inside(root, "numbers", precision)) {
        rows.push({
          part: "numbers",
          name: `${what}, ${precision}, ${model}`,
          value: gpu.relative.toExponential(1),
          unit: "relative error",
          ...(precision === "float32" ? { ratio: round(ratio, 2), target: "≤ 2 × the CPU's" } : {}),
          note: `largest ${gpu.most.toExponential(1)}; CPU runtime ${cpu.relative.toExponential(1)}; against the float64 interpreter`,
        });
      }
    }
    return rows;
  },

  async repeat({ root }) {
    const { count, different } = await inside(root, "repeat", "100");
    return [
      {
        part: "repeat",
        name: "equal training passes",
        value: different,
        unit: "different results",
        target: "1",
        note: `${count} passes, log-probs and gradient compared to the bit`,
      },
    ];
  },

  async agreement({ root }) {
    const rows = [];
    for (const precision of ["float32", ...PRECISIONS]) {
      const { kl, most, tokens } = await inside(
        root,
        "agreement",
        join(root, "node_modules/@tinklet/base-model"),
        precision,
      );
      rows.push({
        part: "agreement",
        name: `sampler against trainer, ${precision}`,
        value: kl.toExponential(1),
        unit: "nats per token (KL)",
        note: `${tokens} tokens of the bundled model; largest difference of a log-prob ${most.toExponential(1)}`,
      });
    }
    return rows;
  },

  async bus({ root }) {
    const rows = [];
    for (const name of ["135M", "596M"]) {
      const { weights, later, decode } = await inside(
        root,
        "bus",
        checkpoint(root, name, GPU_SHAPES[name]),
        "32",
        "256",
      );
      rows.push({
        part: "bus",
        name: `${name} bytes to and from the device per training step, 32 × 256`,
        value: later.in,
        unit: "bytes in",
        note: `${later.out} out; the weights have ${weights}`,
      });
      rows.push({
        part: "bus",
        name: `${name} bytes per decoded token, 32 sequences`,
        value: round(decode.in),
        unit: "bytes in",
        note: `${round(decode.out)} out`,
      });
    }
    return rows;
  },

  /** Models that fit only with bfloat16, under an enforced limit. */
  async large({ root }) {
    const rows = [];
    const ours = await startOurs(root, "4B", {
      precision: "bfloat16",
      memoryBudgetBytes: 24e9,
      contextLength: 2048,
      maxBatch: 8,
    });
    rows.push({ part: "large", name: "4B under 24 GB, load", value: round(ours.ready.loadSeconds, 1), unit: "s" });
    const train = await ours.ask("train", { lengths: Array(8).fill(256), steps: 4 });
    rows.push({
      part: "large",
      name: "4B under 24 GB, training 8 × 256",
      value: round(train.tokens / median(train.seconds.slice(1))),
      unit: "tokens/s",
    });
    await ours.ask("generate", { batch: 8, prompt: 64, new: 16 });
    const sampled = await ours.ask("generate", { batch: 8, prompt: 64, new: 64 });
    rows.push({
      part: "large",
      name: "4B under 24 GB, sampling 8 sequences",
      value: round(sampled.tokens / sampled.seconds[0]),
      unit: "tokens/s",
    });
    const used = execFileSync("nvidia-smi", ["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
      .toString()
      .trim();
    rows.push({
      part: "large",
      name: "4B under 24 GB, memory of the device in use",
      value: round((Number(used) * 2 ** 20) / 1e9, 1),
      unit: "GB",
      target: "≤ 24 and the driver's own",
      note: "as nvidia-smi reports it after training and sampling",
    });
    await ours.quit();
    return rows;
  },
};

const optionOf = (args, flag) => args[args.indexOf(flag) + 1];

const bench = async ({ root, args, onRows = () => undefined }) => {
  if (args.includes("--rows")) return JSON.parse(readFileSync(optionOf(args, "--rows"), "utf8"));
  const chosen = args.includes("--part") ? [optionOf(args, "--part")] : Object.keys(parts);
  const named = Object.keys(GPU_SHAPES).filter((shape) => args.includes(shape));
  const shapes = named.length > 0 ? named : Object.keys(GPU_SHAPES);
  const smi = execFileSync("nvidia-smi", ["--query-gpu=name,driver_version", "--format=csv,noheader"])
    .toString()
    .trim();
  const torch = execFileSync(python(), [
    "-c",
    "import torch, transformers, peft; print(torch.__version__, transformers.__version__, peft.__version__)",
  ])
    .toString()
    .trim();
  const note = `${smi}; PyTorch, transformers, PEFT ${torch}; LoRA rank 16 on all linears. Ratios are of the better of TF32 and bfloat16 on each side.`;
  const machine = `${smi.split(",")[0]}, ${cpus().length} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
  const rows = [];
  for (const part of chosen) {
    if (!parts[part]) throw new Error(`there is no part ${part}; parts are ${Object.keys(parts).join(", ")}`);
    try {
      rows.push(...(await parts[part]({ root, shapes })));
    } catch (error) {
      console.error(`${part}: ${error.stack ?? error}`);
      process.exitCode = 1;
    }
    onRows({ rows, note, machine, partial: true });
  }
  return { rows, note, machine, partial: true };
};

export default bench;

// On its own, where there is no npm.
if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const args = process.argv.slice(2);
  const write = (measured) => writeFileSync(optionOf(args, "--out"), `${JSON.stringify(measured, null, 2)}\n`);
  const { rows } = await bench({ root: fileURLToPath(new URL("..", import.meta.url)), args, onRows: write });
  for (const row of rows) console.log(JSON.stringify(row));
}
