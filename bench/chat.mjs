// Chats against samples: tokens per second of 32 chats over HTTP beside 32 samples of the SDK, and of replies that are held to a schema
// beside free ones, each taken in turns in one process with the real engine and the bundled model.
//   npm run bench -- chat
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { bundle } from "../test/fixtures/programs/bundle.mjs";
import { median, round, spread } from "./measure.mjs";

const sorted = (values) => [...values].sort((a, b) => a - b);

export default async function bench({ root }) {
  const main = await bundle("bench/chat/rates.ts");
  const done = spawnSync(process.execPath, [main, join(root, "packages/base-model")], {
    encoding: "utf8",
    timeout: 600_000,
  });
  if (done.status !== 0) throw new Error(done.stderr.slice(-2000));
  const rates = JSON.parse(done.stdout.trim().split("\n").at(-1));
  const [chats, samples, held, free] = [rates.chats, rates.samples, rates.held, rates.free].map(sorted);
  /** Of neighbours in time: what else the machine does is then on both sides. */
  const ratio = (a, b) => round(median(sorted(a.map((value, i) => value / b[i]))), 3);
  return {
    rows: [
      {
        name: "tokens per second of 32 chats at once",
        value: Math.round(median(chats)),
        unit: "tokens/s",
        spread: spread(chats, 0),
        ratio: ratio(rates.chats, rates.samples),
        target: "≥ 0.95",
        note: `32 samples ${Math.round(median(samples))} tokens/s (${spread(samples, 0)}), taken in turns`,
      },
      {
        name: "tokens per second of 16 replies that are held to a schema",
        value: Math.round(median(held)),
        unit: "tokens/s",
        spread: spread(held, 0),
        ratio: ratio(rates.held, rates.free),
        target: "≥ 0.8",
        note: `16 free samples of the same lengths ${Math.round(median(free))} tokens/s (${spread(free, 0)}), taken in turns`,
      },
    ],
  };
}
