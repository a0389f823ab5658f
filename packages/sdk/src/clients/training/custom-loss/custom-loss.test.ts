import { Datum, ForwardBackwardOutput, ModelInput, TensorData, type TensorLike } from "@tinklet/wire";
import { stack, UnusedLeafError, type Var } from "@tinklet/wire/autodiff";
import { InvalidInputError, ResponseValidationError } from "@tinklet/wire/errors";
import { describe, expect, test } from "vitest";
import { failure } from "../../../testing/harness.ts";
import { combineOutputs } from "../combine-metrics.ts";
import { type CustomLossFn, CustomLossOutput, customForwardData } from "./custom-loss.ts";
import { runCustomLoss } from "./run-custom-loss.ts";

const datum = (lossFnInputs: Record<string, TensorLike>) =>
  new Datum({ modelInput: ModelInput.fromInts([1, 2]), lossFnInputs });
const answer = (...logprobs: TensorLike[]) =>
  new ForwardBackwardOutput({
    lossFnOutputType: "ArrayRecord",
    lossFnOutputs: logprobs.map((values) => ({ logprobs: TensorData.from(values, { dtype: "float32" }) })),
    metrics: { "loss:sum": 7 },
  });
const plain = [datum({ target_tokens: [3, 4] })];
const weights = (item: Datum | undefined) => item?.lossFnInputs["weights"] as TensorData;

describe("M-604 the forward pass", () => {
  test("zero weights in the targets' shape are added to a copy", () => {
    const given = [datum({ target_tokens: [[1, 2], [3, 4]] })]; // biome-ignore format: a matrix
    const [sent] = customForwardData(given);
    expect(weights(sent).toList()).toEqual([
      [0, 0],
      [0, 0],
    ]);
    expect(weights(sent).dtype).toBe("float32");
    expect(Object.keys(given[0]!.lossFnInputs)).toEqual(["target_tokens"]);
  });
  test("given weights are sent as they are", () => {
    const given = datum({ target_tokens: [1, 2], weights: [1, 0] });
    const [sent] = customForwardData([given]);
    expect(sent?.lossFnInputs).toEqual(given.lossFnInputs);
    expect(weights(sent)).toBe(weights(given));
  });
  test("what only the loss reads is not sent", () => {
    const sent = customForwardData([datum({ target_tokens: [1, 2], advantages: [1, 1] })]);
    expect(Object.keys(sent[0]!.lossFnInputs)).toEqual(["target_tokens", "weights"]);
  });
  test("where the tokens come from is sent in both passes", async () => {
    const modelInput = [{ type: "prompt", sequenceId: "s:0", length: 2 }] as const;
    const lossFnInputs = [{ type: "sampled", sequenceId: "s:0", length: 2 }] as const;
    const data = [plain[0]!.withProvenance({ modelInput, lossFnInputs })];
    const { data: backward } = await runCustomLoss(data, answer([-1, -2]), (_, [lp]) => ({ loss: lp!.sum() }));
    for (const sent of [customForwardData(data), backward]) {
      expect(sent[0]).toMatchObject({ modelInputSpans: modelInput, lossFnInputSpans: lossFnInputs });
    }
  });
  test("sparse targets get dense zeros of their dense shape", () => {
    const sparse = TensorData.from([[0, 0, 0, 5, 0, 0]], { dtype: "int64" }).toSparse();
    expect(sparse.isSparse).toBe(true);
    expect(weights(customForwardData([datum({ target_tokens: sparse })])[0]).shape).toEqual([1, 6]);
  });
  test.each<[string, () => unknown]>([
    ["data[1].lossFnInputs.target_tokens", () => customForwardData([...plain, datum({ weights: [1, 1] })])],
    ["lossTypeInput", () => customForwardData(plain, { lossTypeInput: "logits" })],
    ["data", () => customForwardData([])],
    ["lossFnInputs.target_tokens[1]", () => datum({ target_tokens: [[1, 2], [3]] })],
  ])("refuses by name: %s", (field, attempt) => {
    expect(attempt).toThrow(InvalidInputError);
    expect(attempt).toThrow(expect.objectContaining({ field }));
  });
});

describe("M-604 the loss and the backward pass", () => {
  test("1-D: weights are minus the slope", async () => {
    const back = await runCustomLoss(plain, answer([-1, -2]), (_, [lp]) => ({ loss: lp!.at(-1).neg() }));
    expect(back.loss).toBe(2);
    expect(Array.from(weights(back.data[0]).values as Float32Array)).toEqual([-0, 1]); // minus zero, as in Python
    expect(weights(back.data[0]).shape).toEqual([2]);
    expect(back.data[0]!.modelInput).toBe(plain[0]!.modelInput);
    expect(back.data[0]!.lossFnInputs["target_tokens"]).toBe(plain[0]!.lossFnInputs["target_tokens"]);
  });
  test("2-D: log-probs have the targets' shape, for any shape that the server returned", async () => {
    const targets = [[1, 2], [3, 4]]; // biome-ignore format: a matrix
    const back = await runCustomLoss([datum({ target_tokens: targets })], answer([-1, -2, -3, -4]), (_, [lp]) => {
      expect(lp!.shape).toEqual([2, 2]);
      return { loss: lp!.mul([[1, 2], [3, 4]]).sum(), metrics: { mine: 5 } }; // biome-ignore format: a matrix
    });
    expect(weights(back.data[0]).toList()).toEqual([
      [-1, -2],
      [-3, -4],
    ]);
    expect(back.metrics).toEqual({ mine: 5 });
  });
  test("2-D weights that are mostly zero travel sparse", async () => {
    const data = [datum({ target_tokens: [Array.from({ length: 12 }, (_, i) => i)] })];
    const logprobs = answer([Array.from({ length: 12 }, () => -1)]);
    const back = await runCustomLoss(data, logprobs, (_, [lp]) => ({ loss: lp!.reshape([12]).at(3).mul(2) }));
    expect(weights(back.data[0]).isSparse).toBe(true);
    expect(weights(back.data[0]).toDense().data).toEqual([0, 0, 0, -2, 0, 0, 0, 0, 0, 0, 0, 0]);
  });
  test("the user sees the data as given, and may work asynchronously", async () => {
    const data = [datum({ target_tokens: [3, 4], weights: [0, 1] }), datum({ target_tokens: [5] })];
    const loss: CustomLossFn = async (given, logprobs) => {
      await Promise.resolve();
      expect(given).toBe(data);
      return { loss: stack(logprobs.map((lp) => lp.mean())).sum() };
    };
    const back = await runCustomLoss(data, answer([-1, -2], [-3]), loss);
    expect(back.data.map((item) => weights(item).data)).toEqual([[-0.5, -0.5], [-1]]);
  });
  test("gradients may be handed over directly", async () => {
    const back = await runCustomLoss(plain, answer([-1, -2]), () => ({ loss: 1.5, gradients: [[0.5, -0.25]] }));
    expect(back.loss).toBe(1.5);
    expect(weights(back.data[0]).data).toEqual([-0.5, 0.25]);
    const tensors = { loss: 1, gradients: [TensorData.from(Float32Array.of(1, 2))] };
    expect(weights((await runCustomLoss(plain, answer([-1, -2]), () => tensors)).data[0]).data).toEqual([-1, -2]);
  });
  test("a loss of one element counts as a scalar", async () => {
    const back = await runCustomLoss(plain, answer([-1, -2]), (_, [lp]) => ({ loss: lp!.slice(0, 1) }));
    expect(back.loss).toBe(-1);
  });

  const run = (loss: unknown, forward = answer([-1, -2])) => runCustomLoss(plain, forward, loss as CustomLossFn);
  test("a datum whose log-probs are not used is an error", async () => {
    const two = [...plain, ...plain];
    const loss: CustomLossFn = (_, [lp]) => ({ loss: lp!.sum() });
    await expect(runCustomLoss(two, answer([-1, -2], [-1, -2]), loss)).rejects.toThrow(UnusedLeafError);
  });
  test.each<[string, CustomLossFn | (() => unknown)]>([
    ["loss", () => undefined],
    ["loss", () => ({ loss: "low" })],
    ["gradients", () => ({ loss: 1 })],
    ["gradients", () => ({ loss: 1, gradients: [] })],
    ["gradients[0]", () => ({ loss: 1, gradients: [[1]] })],
    ["gradients[0]", () => ({ loss: 1, gradients: [[1, Number.NaN]] })],
    ["loss", () => ({ loss: Number.NaN, gradients: [[1, 1]] })],
    ["loss", () => ({ loss: Infinity, gradients: [[1, 1]] })],
    // its slope is finite: the log of a clamped negative number is not
    ["loss", (_, [lp]) => ({ loss: lp!.sum().mul(0).add(Number.NaN).add(lp!.sum()) })],
    ["gradients[0]", (_: unknown, [lp]) => ({ loss: lp!.add(1).log().sum() })],
    ["metrics.mine", () => ({ loss: 1, gradients: [[1, 1]], metrics: { mine: "5" } })],
  ])("refuses by name: %s", async (field, loss) => {
    await expect(run(loss)).rejects.toThrow(expect.objectContaining({ name: "InvalidInputError", field }));
  });
  test("says what is wrong with what the loss returned", async () => {
    const problem = async (loss: () => unknown) => {
      const error = await failure(run(loss));
      return [error.message, error["hint"]];
    };
    const clampHint = expect.stringContaining("log of zero, division by zero or exp of a large number");
    expect(await problem(() => ({ loss: "low" }))).toEqual([
      expect.stringContaining("a custom loss must return { loss }, a Var or a number, got "),
      undefined,
    ]);
    expect(await problem(() => ({ loss: 1, gradients: [[1, 1], [1]] }))).toEqual([
      "gradients: must hold one array for each of the 1 data",
      expect.stringContaining("Return the loss as a Var"),
    ]);
    expect(await problem(() => ({ loss: 1, gradients: [[1]] }))).toEqual([
      "gradients[0]: must have 2 numbers, got 1",
      undefined,
    ]);
    expect(await problem(() => ({ loss: 1, gradients: [undefined] }))).toEqual([
      "gradients[0]: must have 2 numbers, got 0",
      undefined,
    ]);
    expect(await problem(() => ({ loss: 1, gradients: [[1, Infinity]] }))).toEqual([
      "gradients[0]: is Infinity at position 1",
      clampHint,
    ]);
    expect(await problem(() => ({ loss: -Infinity, gradients: [[1, 1]] }))).toEqual(["loss: is -Infinity", clampHint]);
    expect(await problem(() => ({ loss: 1, gradients: [[1, 1]], metrics: { mine: "5" } }))).toEqual([
      expect.stringMatching(/^metrics\.mine: must be a number, got .*5/),
      undefined,
    ]);
    expect((await failure(run((_: unknown, [lp]: [Var]) => ({ loss: lp })))).name).toBe("ShapeError"); // not a scalar
  });
  test("gradients may be sparse or whole numbers, as tensors have them", async () => {
    const sparse = TensorData.from([[0, 0, 0, 0, 0, 0, 0, 3]], { dtype: "float32" }).toSparse();
    const eight = [datum({ target_tokens: [[1, 2, 3, 4, 5, 6, 7, 8]] })];
    const logprobs = answer([Array.from({ length: 8 }, () => -1)]);
    const back = await runCustomLoss(eight, logprobs, () => ({ loss: 1, gradients: [sparse] }));
    expect(weights(back.data[0]).toDense().toList()).toEqual([[0, 0, 0, 0, 0, 0, 0, -3]]);
    const whole = { loss: 1, gradients: [TensorData.from([1, 2], { dtype: "int64" })] };
    expect(weights((await runCustomLoss(plain, answer([-1, -2]), () => whole)).data[0]).data).toEqual([-1, -2]);
  });
  test("an answer that does not fit the batch is the server's fault, by name", async () => {
    const fine: CustomLossFn = (_, [lp]) => ({ loss: lp!.sum() });
    await expect(run(fine, answer([-1, -2], [-1]))).rejects.toThrow(ResponseValidationError);
    await expect(run(fine, answer([-1, -2], [-1]))).rejects.toThrow(
      /loss_fn_outputs: must have one entry per datum: 1, got 2/,
    );
    await expect(run(fine, answer([-1]))).rejects.toThrow(/loss_fn_outputs\[0\]\.logprobs/);
    await expect(run(fine, answer([-1]))).rejects.toThrow(/has 1 values for target_tokens of shape \[2\]/);
    const targets = [datum({ target_tokens: [[1, 2], [3, 4]] })]; // biome-ignore format: a matrix
    await expect(runCustomLoss(targets, answer([-1]), fine)).rejects.toThrow(/of shape \[2, 2\]/);
    const empty = new ForwardBackwardOutput({ lossFnOutputType: "x", lossFnOutputs: [{}] });
    await expect(run(fine, empty)).rejects.toThrow(/logprobs: is missing/);
  });
  test("what the user's loss throws arrives untouched", async () => {
    const oops = new Error("mine");
    await expect(
      run(() => {
        throw oops;
      }),
    ).rejects.toBe(oops);
  });
});

test("M-604 the user's metrics join the server's, and `loss` is the custom loss", () => {
  const output = new CustomLossOutput(answer([-1, -2]), { loss: 3, metrics: { mine: 5, "loss:mean": 1 } });
  expect(output.metrics).toEqual({ "loss:sum": 3, "surrogate_loss:sum": 7, mine: 5, "loss:mean": 1 });
  expect(output.loss).toBe(3);
  expect(output.lossFnOutputs).toHaveLength(1);
  const hashed = combineOutputs(
    [answer([-1]), answer([-1])].map((part) => ({ ...part, metrics: { "h:hash2": 2 } }) as never),
  );
  expect(new CustomLossOutput(hashed, { loss: 3, metrics: {} }).hashes).toEqual({ "h:hash2": 4n });
});
