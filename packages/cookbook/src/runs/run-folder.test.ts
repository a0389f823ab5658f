import { appendFile, mkdtemp, readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { prepareSupervised } from "../data/prepare.ts";
import { letterTokenizer } from "../testing/letter-tokenizer.ts";
import { RunFolder } from "./run-folder.ts";

const scratch = () => mkdtemp(join(tmpdir(), "tinklet-folder-"));

describe("RunFolder", () => {
  it("belongs to one set of settings", async () => {
    const run = await RunFolder.open(join(await scratch(), "a", "b"));
    const settings = { rank: 8, learning_rate: 1e-4, adam: undefined };
    expect(await run.claim(settings)).toBe(false);
    expect(await run.claim(settings)).toBe(true);
    await expect(run.claim({ ...settings, rank: 16, seed: 1 })).rejects.toThrow(
      "other settings: rank was 8 and is now 16; seed was undefined and is now 1",
    );
  });

  it("keeps unknown keys of checkpoints, as the Python cookbook's have them, and finds the last that can be trained on", async () => {
    const run = await RunFolder.open(await scratch());
    await run.appendCheckpoint({
      name: "000020",
      batch: 20,
      epoch: 0,
      state_path: "tinker://r/weights/000020",
      step: 20,
    });
    await run.appendCheckpoint({ name: "000040", sampler_path: "tinker://r/sampler_weights/000040" });
    expect(await run.lastCheckpoint()).toMatchObject({ name: "000020", step: 20 });
  });

  it("is cleared for a run like the one that was there, and for no other", async () => {
    const folder = await scratch();
    const run = await RunFolder.open(folder);
    const isSame = ({ kind }: Readonly<Record<string, unknown>>) => kind === "mine";
    await run.clear(isSame); // nothing is there
    await writeFile(join(folder, "train_data.jsonl"), "the user's");
    await expect(run.clear(isSame)).rejects.toThrow(/train_data\.jsonl: does not belong to this run/);
    await run.writeConfig({ kind: "other" });
    await expect(run.clear(isSame)).rejects.toThrow(/config\.json: does not belong to this run/);
    expect(await readFile(join(folder, "train_data.jsonl"), "utf8")).toBe("the user's");
    await run.writeConfig({ kind: "mine" });
    await writeFile(join(folder, "notes.md"), "the user's");
    await run.clear(isSame);
    expect((await readdir(folder)).toSorted()).toEqual(["notes.md", "run.lock"]);
    await run.close();
  });

  it("takes back what came after a step, whole lines only", async () => {
    const run = await RunFolder.open(await scratch());
    for (const step of [0, 1, 2]) {
      await run.appendMetrics({ step, loss: step / 10 });
      await run.appendTiming(step, { step: 0.5 });
    }
    await appendFile(join(run.path, "metrics.jsonl"), '{"step":3,');
    await run.rewind(2);
    expect(await readFile(join(run.path, "metrics.jsonl"), "utf8")).toBe(
      '{"step":0,"loss":0}\n{"step":1,"loss":0.1}\n',
    );
    expect((await readFile(join(run.path, "timing_spans.jsonl"), "utf8")).split("\n").length).toBe(3);
  });

  it("names the line that is not JSON", async () => {
    const run = await RunFolder.open(await scratch());
    await writeFile(join(run.path, "metrics.jsonl"), '{"step":0}\nnonsense\n');
    await expect(run.readMetrics()).rejects.toThrow("metrics.jsonl:2: is not JSON");
  });
});

describe("prepareSupervised", () => {
  it("reads, renders, splits and counts", async () => {
    const file = join(await scratch(), "data.jsonl");
    await writeFile(file, ["abc", "de", "fghi", "abc"].map((text) => `${JSON.stringify({ text })}\n`).join(""));
    const prepared = await prepareSupervised(file, letterTokenizer(), { testShare: 1, maxLength: 4 });
    expect(prepared.train.length + prepared.test.length).toBe(4);
    expect(prepared.summary.examples + prepared.testSummary.examples).toBe(4);
    expect(prepared.summary.truncated + prepared.testSummary.truncated).toBe(1);
    const again = await prepareSupervised(file, letterTokenizer(), { trainOn: "everything" });
    expect(again.digest).toBe(prepared.digest);
    await writeFile(file, `${JSON.stringify({ prompt: "abc", completion: "d" })}\n`);
    const other = await prepareSupervised(file, letterTokenizer());
    expect(other.digest).not.toBe(prepared.digest);
    await expect(prepareSupervised(file, letterTokenizer(), { maxLength: 3 })).rejects.toThrow(
      "anything left to learn",
    );
  });
});
