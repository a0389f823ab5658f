/** Functions of `torch.nn.functional`. In traced graphs all their arguments are passed by name. */

import type { Var } from "@tinklet/wire/autodiff";
import * as autodiff from "@tinklet/wire/autodiff";
import { CustomLossError } from "./custom-loss-error.ts";
import { type Kit, known } from "./kit.ts";
import type { Operations } from "./operation.ts";
import { axesOf, describeValue, type Num, type Tensor, type Value } from "./values.ts";

const reduced = (kit: Kit, terms: Tensor, reduction: Value): Tensor => {
  const axes = axesOf(null, terms.rank);
  if (reduction === "none") return terms;
  if (reduction === "sum") return kit.sum(terms, axes, false);
  if (reduction === "mean") {
    const count = kit.count(terms, axes);
    return kit.each(kit.sum(terms, axes, false), (sum) => sum.mul(1 / known(count)));
  }
  throw new CustomLossError(`reduction must be "none", "sum" or "mean", not ${describeValue(reduction)}`);
};

const absent = (value: Value, name: string): void => {
  if (value !== null) throw new CustomLossError(`the argument ${JSON.stringify(name)} is not supported`);
};

const positive = (value: Value, name: string): number => {
  if (typeof value === "number" && value > 0) return value;
  throw new CustomLossError(`${name} must be a number above 0`);
};

/** Upper bound of the arrays that one of these losses allocates. */
const distanceArrays = 10;

/** A loss between two tensors, element by element. */
function distance(list: Operations, name: string, extra: string, terms: (difference: Var, by: Num) => Var): void {
  const parameters = `input target size_average? reduce? reduction="mean" weight?${extra}`;
  list.add(`torch.nn.functional.${name}`, parameters, (kit, [a, b, average, reduce, reduction, weight, by = 1]) => {
    absent(average!, "size_average");
    absent(reduce!, "reduce");
    absent(weight!, "weight");
    const [x, y] = [kit.lift(a!, "input"), kit.lift(b!, "target")];
    const scale = positive(by, name);
    return reduced(
      kit,
      kit.zip(x, y, (p, q) => terms(p.sub(q), scale), "float32", distanceArrays),
      reduction!,
    );
  });
}

/** The Huber loss in two terms: quadratic up to `edge`, linear above it, with a continuous gradient. */
const rounded = (difference: Var, edge: number): { near: Var; far: Var } => {
  const near = difference.abs().clamp({ max: edge });
  return { near: near.mul(near).mul(0.5), far: difference.abs().sub(near).mul(edge) };
};

export function addFunctional(list: Operations): void {
  distance(list, "mse_loss", "", (d) => d.mul(d));
  distance(list, "l1_loss", "", (d) => d.abs());
  distance(list, "huber_loss", " delta=1", (d, delta) => {
    const { near, far } = rounded(d, known(delta));
    return near.add(far);
  });
  distance(list, "smooth_l1_loss", " beta=1", (d, beta) => {
    const { near, far } = rounded(d, known(beta));
    return near.add(far).div(known(beta));
  });
  list.add("torch.relu .relu", "input", (kit, [x]) => kit.each(kit.lift(x!, "input"), relu, "float32", 3));
  list.add("torch.nn.functional.relu", "input inplace=false", (kit, [x, inplace]) => {
    if (inplace === true) throw new CustomLossError("inplace=True is not supported");
    return kit.each(kit.lift(x!, "input"), relu, "float32", 3);
  });
  list.add("torch.nn.functional.sigmoid", "input", (kit, [x]) => kit.each(kit.lift(x!, "input"), (v) => v.sigmoid()));
  list.add("torch.nn.functional.tanh", "input", (kit, [x]) => kit.each(kit.lift(x!, "input"), (v) => v.tanh()));
  list.add("torch.nn.functional.silu", "input inplace=false", (kit, [x]) =>
    kit.each(kit.lift(x!, "input"), (v) => v.mul(v.sigmoid()), "float32", 2),
  );
  list.add("torch._C._nn.log_sigmoid", "input", (kit, [x]) => kit.each(kit.lift(x!, "input"), (v) => v.logSigmoid()));
  list.add("torch._C._nn.softplus", "input beta=1 threshold=20", (kit, [x, beta]) => {
    const scale = positive(beta!, "beta");
    return kit.each(kit.lift(x!, "input"), (v) => v.mul(scale).softplus().div(scale), "float32", 3);
  });
  list.add(
    "torch.nn.functional.binary_cross_entropy_with_logits",
    'input target weight? size_average? reduce? reduction="mean" pos_weight?',
    (kit, [a, b, weight, average, reduce, reduction, share]) => {
      for (const [value, name] of [
        [weight, "weight"],
        [average, "size_average"],
        [reduce, "reduce"],
        [share, "pos_weight"],
      ] as const) {
        absent(value!, name);
      }
      const terms = (x: Var, y: Var) => x.softplus().sub(x.mul(y));
      return reduced(kit, kit.zip(kit.lift(a!, "input"), kit.lift(b!, "target"), terms, "float32", 3), reduction!);
    },
  );
  list.add(
    "torch.nn.functional.kl_div",
    'input target size_average? reduce? reduction="mean" log_target=false',
    (kit, [a, b, average, reduce, reduction, logarithms]) => {
      absent(average!, "size_average");
      absent(reduce!, "reduce");
      const [x, y] = [kit.lift(a!, "input"), kit.lift(b!, "target")];
      const terms = (p: Var, q: Var) =>
        logarithms === true ? q.exp().mul(q.sub(p)) : q.mul(q.max(Number.MIN_VALUE).log().sub(p));
      return reduced(kit, kit.zip(x, y, terms, "float32", 4), reduction!);
    },
  );
}

// The gradient at 0 is 0, as in PyTorch; with `clamp` it would be 1.
const relu = (x: Var): Var =>
  autodiff.where(
    autodiff.constant(
      x.data.map((value) => Number(value > 0)),
      x.shape,
    ),
    x,
    0,
  );
