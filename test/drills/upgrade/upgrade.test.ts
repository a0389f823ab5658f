/**
 * Data folders of earlier releases (recorded by upgrade-record.mjs: one closed in order, one killed in the middle of its work), opened by
 * this release with the real engine.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { FakeClock } from "tinklet/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { arithmeticVersion } from "../../../packages/engine/src/arithmetic.ts";
import { openEngine } from "../../../packages/engine/src/engine.ts";
import { TestServer } from "../../../packages/server/src/testing/test-server.ts";

interface Recording {
  readonly recordedAt: number;
  readonly modelId: string;
  readonly lora: { readonly rank: number; readonly seed: number };
  readonly calls: readonly (readonly [string, Record<string, unknown>])[];
  readonly accepted: readonly { readonly requestId: string; readonly path: string }[];
  readonly results: readonly { readonly requestId: string; readonly type: string; readonly body: string }[];
}

/** The recorded releases, and the version of their engine's arithmetic. */
const releases = [
  { release: "first", arithmetic: 1 },
  { release: "second", arithmetic: 2 },
];

describe.each(releases)(
  "data folders of the $release recorded release",
  ({ release, arithmetic: recordedArithmetic }) => {
    const fixtures = fileURLToPath(new URL(`../../fixtures/upgrade/${release}/`, import.meta.url));
    const root = mkdtempSync(join(tmpdir(), "tinklet-upgrade-"));
    const recording = (name: string) => JSON.parse(readFileSync(join(fixtures, `${name}.json`), "utf8")) as Recording;

    /** A folder of the fixture as it was. */
    const unpack = (name: string, to = name): string => {
      for (const file of readdirSync(join(fixtures, name), { recursive: true, encoding: "utf8" })) {
        if (!file.endsWith(".gz")) continue;
        const target = join(root, to, file.slice(0, -3));
        mkdirSync(dirname(target), { recursive: true });
        writeFileSync(target, gunzipSync(readFileSync(join(fixtures, name, file))));
      }
      return join(root, to);
    };

    beforeAll(() => void unpack("model"));
    afterAll(() => rmSync(root, { recursive: true, force: true }));

    /** This release's server over the real engine, at the time of the recording. */
    const open = (dataDir: string | undefined, now: number, arithmetic?: number): Promise<TestServer> =>
      TestServer.open({
        dataDir,
        clock: new FakeClock(now + 60_000),
        models: [{ name: "test/model", open: () => openEngine(join(root, "model"), { inThread: true }) }],
        ...(arithmetic === undefined ? {} : { arithmetic }),
      });

    /** What a client gets for a request, as it comes. */
    const answerOf = async (server: TestServer, requestId: string) => {
      const answer = await server.post(
        "retrieve_future",
        { request_id: requestId },
        { accept: "application/x-protobuf" },
      );
      return {
        requestId,
        type: answer.headers.get("content-type"),
        body: Buffer.from(answer.bytes).toString("base64"),
      };
    };

    /** Saves a model and returns the files that hold its state. */
    const savedFiles = async (server: TestServer, dataDir: string, modelId: string, seq: number) => {
      const adapters = join(dataDir, "adapters");
      const before = new Set(readdirSync(adapters));
      const saved = await server.result(
        server.post("save_weights", { model_id: modelId, seq_id: seq, path: `s${seq}` }),
      );
      expect(saved.path).toBe(`tinker://${modelId}/weights/s${seq}`);
      const added = readdirSync(adapters).filter((name) => !before.has(name));
      expect(added).toHaveLength(1);
      return filesOf(join(adapters, added[0]!));
    };
    const filesOf = (folder: string) =>
      ["adapter_model.safetensors", "optimizer.safetensors"].map((name) =>
        readFileSync(join(folder, name)).toString("base64"),
      );

    test("a folder that was closed in order: results byte for byte, and states exactly", async () => {
      const { results, recordedAt, modelId } = recording("clean");
      expect(results).toHaveLength(16);
      const dataDir = unpack("clean");
      const states = readdirSync(join(dataDir, "adapters")).map((name) => join(dataDir, "adapters", name));
      const withOptimizer = states.filter((folder) => readdirSync(folder).includes("optimizer.safetensors"));
      const stepOf = (folder: string) =>
        (JSON.parse(readFileSync(join(folder, "state.json"), "utf8")) as { step: number }).step;
      const [half, snapshot] = [3, 6].map((step) => filesOf(withOptimizer.find((folder) => stepOf(folder) === step)!));
      const server = await open(dataDir, recordedAt);
      for (const result of results) expect(await answerOf(server, result.requestId)).toEqual(result);
      const warnings = server.logged.filter(({ level }) => level !== "info").map(({ event }) => event);
      expect(warnings).toEqual(arithmeticVersion === recordedArithmetic ? [] : ["arithmetic.changed"]);
      // The model comes back from the snapshot that the closing server took.
      expect(await savedFiles(server, dataDir, modelId, 15)).toEqual(snapshot);
      // A new model goes on from the checkpoint of the third step.
      const other = await server.model(undefined, { rank: 2 });
      const path = `tinker://${modelId}/weights/half`;
      await server.result(server.post("load_weights", { model_id: other, seq_id: 1, path, optimizer: true }));
      expect(await savedFiles(server, dataDir, other, 2)).toEqual(half);
      await server.close();
    });

    test("a folder that was killed: what was handed out, and the rest as an undisturbed run computes it", async () => {
      const { accepted, results, recordedAt, modelId, lora, calls } = recording("killed");
      expect(results.length).toBeLessThan(accepted.length);
      const dataDir = unpack("killed");
      const server = await open(dataDir, recordedAt);
      expect(server.server.recovered.requests).toBe(accepted.length - results.length);
      const finished = await Promise.all(accepted.map(({ requestId }) => answerOf(server, requestId)));
      for (const result of results) expect(finished).toContainEqual(result);

      const calmDir = join(root, "calm");
      mkdirSync(calmDir);
      const calm = await open(calmDir, recordedAt);
      const calmModel = await calm.model(undefined, lora);
      const calmAnswers: string[] = [];
      for (const [index, [path, body]] of calls.entries()) {
        const asked = await calm.post(path, { model_id: calmModel, seq_id: index + 1, ...body });
        calmAnswers.push((await answerOf(calm, asked.json.request_id)).body);
      }
      // What the killed server had not finished is computed now, from passes that are run again now: the same as if nothing had been.
      const missing = finished.slice(results.length).map(({ body }) => body);
      expect(missing).toEqual(calmAnswers.slice(results.length - 1));
      expect(await savedFiles(server, dataDir, modelId, 15)).toEqual(await savedFiles(calm, calmDir, calmModel, 15));
      await server.close();
      await calm.close();
    });

    test("a release with another arithmetic says so, once, and keeps its number in the folder", async () => {
      const { recordedAt } = recording("clean");
      const dataDir = unpack("clean", "renumbered");
      const warnings: unknown[][] = [];
      const next = recordedArithmetic + 1;
      for (const arithmetic of [recordedArithmetic, next, next]) {
        const server = await open(dataDir, recordedAt, arithmetic);
        warnings.push(server.logged.filter(({ event }) => event === "arithmetic.changed"));
        await server.close();
      }
      const meaning = expect.stringContaining("last bits") as string;
      expect(warnings).toEqual([
        [],
        [{ level: "warn", event: "arithmetic.changed", folder: recordedArithmetic, release: next, meaning }],
        [],
      ]);
      expect(statSync(join(dataDir, "tinklet.db")).size).toBeGreaterThan(0);
    });
  },
);
