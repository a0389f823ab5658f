/** `exit-main FOLDER`: exits with status 7 while the engine's thread is computing a pass. */
import { openEngine } from "../engine.ts";

const engine = await openEngine(process.argv[2]!, { runtime: "native" });
const { adapterId } = await engine.createAdapter({ rank: 4, seed: 1 });
const tokensOf = (row: number) => Int32Array.from({ length: 256 }, (_, i) => (i * (row + 3) + row) % 4000);
const data = [0, 1].map((row) => ({
  tokens: tokensOf(row),
  lossFnInputs: { target_tokens: { data: tokensOf(row + 1) } },
}));
const pass = () => engine.forwardBackward(adapterId, { data, lossFn: "cross_entropy" });
await pass(); // compiles
const start = performance.now();
await pass();
const half = (performance.now() - start) / 2;
for (let i = 0; i < 5; i++) void pass();
setTimeout(() => process.exit(7), half);
