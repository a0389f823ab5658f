/** Writing merged models. `engine.test.ts` checks that a merged model computes the same as base model plus adapter. */
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { createInterpreter } from "../runtime/interpreter.ts";
import type { Program, Runtime } from "../runtime/runtime.ts";
import { tinyModel } from "../testing/tiny-model.ts";
import { createAdapter } from "./adapter.ts";
import { writeMerged } from "./merge.ts";

const root = mkdtempSync(join(tmpdir(), "tinklet-merge-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const model = tinyModel();
const lora = { rank: 2, alpha: 32, seed: 1, trainAttn: true, trainMlp: true, trainUnembed: true };
const adapter = createAdapter(model.config, lora);

/** Merges into a folder and counts disposals of the program. Calls `beforeRun` before each tensor is merged. */
async function merge(name: string, beforeRun: (folder: string) => void) {
  const folder = join(root, name);
  const plain = createInterpreter();
  let disposed = 0;
  const runtime: Runtime = {
    ...plain,
    compile: async (...args): Promise<Program> => {
      const program = await plain.compile(...args);
      return {
        run: async (inputs) => {
          beforeRun(folder);
          return program.run(inputs);
        },
        dispose: () => {
          disposed++;
          return program.dispose();
        },
      };
    },
  };
  const error = await writeMerged({ model, runtime, adapter, config: {}, path: undefined, folder }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return { folder, disposed, error };
}

it("merges a tensor only after the previous ones are written to disk, so that memory holds one at a time", async () => {
  const sizes: number[] = [];
  const { folder, disposed, error } = await merge("whole", (at) => {
    const [file] = readdirSync(at);
    sizes.push(file === undefined ? 0 : statSync(join(at, file)).size);
  });
  expect(error).toBeUndefined();
  expect(sizes).toHaveLength(adapter.layout.modules.length);
  expect(sizes.every((size, i) => size > (sizes[i - 1] ?? 0))).toBe(true);
  expect(readdirSync(folder).sort()).toEqual(["config.json", "model.safetensors"]);
  expect(disposed).toBe(1);
});

it("a failed run leaves no file and disposes of the program", async () => {
  let runs = 0;
  const { folder, disposed, error } = await merge("broken", () => {
    if (++runs === 3) throw new Error("run failed");
  });
  expect(error).toMatchObject({ message: "run failed" });
  expect(readdirSync(folder)).toEqual([]);
  expect(disposed).toBe(1);
});
