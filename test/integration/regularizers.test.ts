/**
 * The regularizers of `@tinklet/sdk/losses` and `combineLosses` against PyTorch (`test/fixtures/regularizers.json`, recorded by
 * `test/interop/custom-losses/regularizers.py`): values and derivatives, in the client and by the server's graph of the traced loss.
 */
import { readFileSync } from "node:fs";
import { CustomLossGraph, Datum, TensorData } from "@tinklet/wire";
import { constant, gradient, leaf } from "@tinklet/wire/autodiff";
import { describe, expect, it } from "vitest";
import { lossInputs, traceLoss } from "../../packages/sdk/src/clients/training/custom-loss/trace-loss.ts";
import * as losses from "../../packages/sdk/src/losses.ts";
import { readLoss } from "../../packages/server/src/custom-loss/read-loss.ts";
import { runLoss } from "../../packages/server/src/custom-loss/run-loss.ts";

interface Tensor {
  readonly shape: readonly number[];
  readonly data: readonly number[];
}
type Inputs = Readonly<Record<"logprobs" | "ref_logprobs" | "weights", Tensor>>;
const { klForward, klReverse, klSymmetric, klSampled, entropy, consistency } = losses;
const regularizers = { klForward, klReverse, klSymmetric, klSampled, entropy, consistency };
type TermName = keyof typeof regularizers;
interface Recorded {
  readonly terms: readonly {
    readonly term: TermName;
    readonly reduction: "sum" | "mean";
    readonly masked: boolean;
    readonly data: readonly { readonly inputs: Inputs; readonly value: number; readonly gradient: readonly number[] }[];
  }[];
  readonly combined: readonly {
    readonly rank: 1 | 2;
    readonly terms: Readonly<Partial<Record<TermName, number>>>;
    readonly loss: number;
    readonly values: Readonly<Record<string, number>>;
    readonly norms: Readonly<Record<string, number>>;
    readonly data: readonly { readonly inputs: Inputs; readonly gradient: readonly number[] }[];
  }[];
}
const recorded = JSON.parse(
  readFileSync(new URL("../fixtures/regularizers.json", import.meta.url), "utf8"),
) as Recorded;

const near = (ours: number, theirs: number, what: string) => {
  expect(Number.isFinite(ours), what).toBe(true);
  const error = Math.abs(ours - theirs) / Math.max(1, Math.abs(theirs));
  expect(error, `${what}: ${ours}, PyTorch ${theirs}`).toBeLessThan(1e-5);
};
const allNear = (ours: ArrayLike<number>, theirs: readonly number[], what: string) => {
  expect(ours.length, what).toBe(theirs.length);
  for (const [i, each] of theirs.entries()) near(ours[i] as number, each, `${what} ${i}`);
};

const tensor = ({ shape, data }: Tensor) => TensorData.from(Float32Array.from(data), { shape: [...shape] });
const reference = "ref_logprobs";
const mask = "weights";

/** What the server makes of a traced loss for one datum. */
function served(loss: losses.CombinedLoss, data: Inputs) {
  const declared = lossInputs(loss.inputRanks);
  const graph = CustomLossGraph.decode(CustomLossGraph.encode(traceLoss(loss.fn as never, declared)));
  const inputs = Object.fromEntries(
    declared.map(({ name }) => {
      const { shape, data: values } = data[name as keyof Inputs];
      return [name, { shape: [...shape], dtype: "float32", data: [...values] }];
    }),
  );
  return runLoss(readLoss(declared, graph), inputs as never);
}

describe("regularizers agree with PyTorch to 1e-5", () => {
  it("each has a record, with and without mask, as sum and as mean", () => {
    const functions = Object.keys(losses).filter((name) => name !== "combineLosses");
    expect([...new Set(recorded.terms.map(({ term }) => term))].sort()).toEqual(functions.sort());
    expect(recorded.terms).toHaveLength(4 * functions.length);
  });

  it.each(
    recorded.terms.map((each) => [`${each.term}, ${each.reduction}${each.masked ? ", masked" : ""}`, each] as const),
  )("%s", (_, { term, reduction, masked, data }) => {
    const made = regularizers[term]({ reference, reduction, ...(masked ? { mask } : {}) });
    const zero = losses.combineLosses({
      base: ({ logprobs }) => ({ loss: logprobs.mul(0).sum() }),
      inputRanks: { logprobs: data[0]?.inputs.logprobs.shape.length === 2 ? 2 : 1 },
      terms: [made],
    });
    for (const { inputs, value, gradient: slopes } of data) {
      const logprobs = leaf(tensor(inputs.logprobs));
      const ours = made.value({
        logprobs,
        [reference]: constant(tensor(inputs.ref_logprobs)),
        [mask]: constant(tensor(inputs.weights)),
      });
      near(ours.item(), value, "client, value");
      allNear(gradient(ours, [logprobs])[0] as Float64Array, slopes, "client, slope");
      const theirs = served(zero, inputs);
      near(theirs.loss, value, "server, value");
      allNear(theirs.slopes, slopes, "server, slope");
      near(theirs.metrics.get(`custom/${made.name}:sum`) as number, value, "server, metric");
    }
  });

  it.each(recorded.combined.map((each) => [Object.keys(each.terms).join(", "), each] as const))(
    "a combined loss of a base and %s",
    async (_, { rank, terms, loss, values, norms, data }) => {
      const made = Object.entries(terms).map(([name, weight]) =>
        regularizers[name as TermName]({ reference, mask, reduction: "mean", weight }),
      );
      const combined = losses.combineLosses({
        base: ({ logprobs, weights }) => ({
          loss: (rank === 2 ? logprobs.sum(1) : logprobs).mul(weights).sum().neg(),
        }),
        inputRanks: { logprobs: rank, weights: 1 },
        terms: made,
      });
      const batch = data.map(({ inputs }) => {
        const size = inputs.logprobs.data.length;
        const targets = TensorData.from(new Int32Array(size), { dtype: "int64", shape: [...inputs.logprobs.shape] });
        const lossFnInputs = {
          target_tokens: targets,
          weights: tensor(inputs.weights),
          ref_logprobs: tensor(inputs.ref_logprobs),
        };
        return new Datum<string>({ modelInput: Array.from(inputs.weights.data, () => 1), lossFnInputs });
      });
      const logprobs = data.map(({ inputs }) => leaf(tensor(inputs.logprobs)));
      const ours = await combined.lossFn(batch, logprobs);
      if (typeof ours.loss === "number") throw new Error("the loss has no graph");
      near(ours.loss.item(), loss, "client, loss");
      for (const [i, slopes] of gradient(ours.loss, logprobs).entries()) {
        allNear(slopes, data[i]?.gradient ?? [], `client, slope of datum ${i}`);
      }
      const nameOf = (term: string) => made[Object.keys(terms).indexOf(term)]?.name ?? term;
      for (const [term, norm] of Object.entries(norms)) {
        near(ours.metrics?.[`grad_norm/${nameOf(term)}`] as number, norm, `client, norm of ${term}`);
      }
      const results = data.map(({ inputs }) => served(combined, inputs));
      near(
        results.reduce((sum, each) => sum + each.loss, 0),
        loss,
        "server, loss",
      );
      for (const [i, { slopes }] of results.entries()) allNear(slopes, data[i]?.gradient ?? [], `server, datum ${i}`);
      for (const [term, value] of Object.entries(values)) {
        const metric = `custom/${nameOf(term)}:sum`;
        near(ours.metrics?.[metric] as number, value, `client, ${metric}`);
        near(
          results.reduce((sum, { metrics }) => sum + (metrics.get(metric) as number), 0),
          value,
          `server, ${metric}`,
        );
      }
    },
  );
});
