import { RunFolderResponse, RunStepsResponse } from "@tinklet/wire";
import { describe, expect, test } from "vitest";
import { costOf, curvesOf, durationOf, tokensOf } from "./run-figures.ts";
import { changeText } from "./views/outcome-tiles.tsx";

const run = (time: readonly number[]) => {
  const zeros = time.map(() => 0);
  const at = "2026-01-01T00:00:00Z";
  return RunStepsResponse.decode({
    run: {
      ...{
        run_id: "a",
        name: "a",
        session_id: "s",
        status: "done",
        base_model: "Qwen/Qwen3-8B",
        lora_rank: 8,
        tags: [],
      },
      ...{ user_metadata: {}, created_at: at, last_request_at: at, steps: time.length, tokens: 70, sparkline: [] },
    },
    steps: {
      ...{ id: time.map((_, i) => i + 1), step: time.map((_, i) => i + 1), time, tokens: zeros, loss: zeros },
      ...{ gradient_norm: zeros, learning_rate: zeros, queue_ms: zeros, compute_ms: time.map(() => 1000) },
    },
    ...{ config: {}, events: [] },
  });
};
const folder = (more: Record<string, unknown> = {}, rows = 3) =>
  RunFolderResponse.decode({
    folder: {
      ...{ folder_id: "f", name: "runs/f", run_ids: [], updated_at: "2026-01-01T00:00:00Z", rows, last: {} },
      ...{ sparkline: [], config: {}, rollouts: [], model: "Qwen/Qwen3-8B" },
    },
    metrics: { step: [0, 1, 2], train_mean_nll: [3, 2, 1] },
    ...{ checkpoints: [], timing: [], ...more },
  });
const data = (one: object) => ({ key: "k", name: "n", run: undefined, folder: undefined, ...one });

describe("the figures of a run", () => {
  test("its duration leaves out the pause before it was resumed", () => {
    expect(durationOf(data({ run: run([1000, 3000, 7_203_000, 7_205_000]) }))).toEqual({
      ...{ seconds: 1 + 2 + 1800 + 2, isExact: true },
    });
    const spans = [{ name: "step", wall_start: 0, wall_end: 2 }];
    expect(durationOf(data({ folder: folder({ timing: [{ step: 0, spans }] }) }))).toEqual({
      seconds: 6,
      isExact: false,
    });
    expect(durationOf(data({ folder: folder({ result: { answers: [], seconds: 9 } }) }))).toMatchObject({ seconds: 9 });
    expect(durationOf(data({ folder: folder() }))).toBeUndefined();
  });

  test("its cost: nothing on this server, else its record, else the price of its tokens", () => {
    const spending = { train: 1e6, evaluate: 0, sample: 1e6 };
    expect(costOf(data({ run: run([0]), folder: folder({ spending }) }))).toEqual({ dollars: 0 });
    expect(costOf(data({ folder: folder({ spending, result: { answers: [], cost: 7 } }) }))).toEqual({ dollars: 7 });
    expect(costOf(data({ folder: folder({ spending }) }))?.dollars).toBeCloseTo(0.44 + 0.6);
    expect(costOf(data({ folder: folder() }))).toBeUndefined();
    expect([tokensOf(data({ run: run([0]) })), tokensOf(data({ folder: folder() }))]).toEqual([
      ...[{ train: 70, evaluate: 0, sample: 0 }, undefined],
    ]);
  });

  test("its curves: the folder's metrics, with the server's time of each step", () => {
    const curves = curvesOf(data({ run: run([5000, 6000, 9000]), folder: folder() }));
    expect([...curves.y.keys(), curves.x.time]).toEqual(["train_mean_nll", [0, 1, 4]]);
    expect(curvesOf(data({ run: run([5000]), folder: folder({ metrics: {} }, 0) })).y.has("loss")).toBe(true);
    const part = run([5000, 6000]);
    const later = { ...part, steps: { ...part.steps, step: [7, 8] } };
    expect(curvesOf(data({ run: later, folder: folder() })).x.time).toBeUndefined();
  });

  test("a change has a sign", () => {
    expect([
      changeText({ first: 3, last: 1 }),
      changeText({ first: 1, last: 3 }),
      changeText({ first: 1, last: 1 }),
    ]).toEqual([...["−2", "+2", "0"]]);
  });
});
