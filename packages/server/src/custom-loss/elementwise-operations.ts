/** Elementwise operations: arithmetic, comparisons, where, casts; also on plain numbers. */

import type { Var } from "@tinklet/wire/autodiff";
import * as autodiff from "@tinklet/wire/autodiff";
import { CustomLossError } from "./custom-loss-error.ts";
import { type Kit, known, wider } from "./kit.ts";
import type { Operations } from "./operation.ts";
import { type Dtype, describeValue, hasKind, isNum, laterSize, type Num, Tensor, type Value } from "./values.ts";

const { constant } = autodiff;
/** Rounds half to even, as PyTorch and Python do. */
const roundEven = (x: number) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

/** Functions of one element with a gradient. */
const smooth: Record<string, (x: Var) => Var> = {
  exp: (x) => x.exp(),
  expm1: (x) => x.expm1(),
  log: (x) => x.log(),
  log1p: (x) => x.log1p(),
  sqrt: (x) => x.sqrt(),
  rsqrt: (x) => x.pow(-0.5),
  reciprocal: (x) => x.pow(-1),
  sigmoid: (x) => x.sigmoid(),
  tanh: (x) => x.tanh(),
  sin: (x) => x.sin(),
  cos: (x) => x.cos(),
};
/** Functions with a gradient in two steps, each of which allocates an array. */
const smoothPairs: Record<string, (x: Var) => Var> = {
  log2: (x) => x.log().mul(1 / Math.LN2),
  log10: (x) => x.log().mul(1 / Math.LN10),
  exp2: (x) => x.mul(Math.LN2).exp(),
};
/** Functions of one element without a gradient. */
const steps: Record<string, (x: number) => number> = {
  sign: Math.sign,
  floor: Math.floor,
  ceil: Math.ceil,
  trunc: Math.trunc,
  round: roundEven,
};
const tests: Record<string, (x: number) => boolean> = {
  isnan: Number.isNaN,
  isinf: (x) => Math.abs(x) === Infinity,
  isfinite: Number.isFinite,
};
const comparisons: Record<string, (a: number, b: number) => boolean> = {
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  lt: (a, b) => a < b,
  le: (a, b) => a <= b,
  gt: (a, b) => a > b,
  ge: (a, b) => a >= b,
};
const logical: Record<string, (a: boolean, b: boolean) => boolean> = {
  and: (a, b) => a && b,
  or: (a, b) => a || b,
  xor: (a, b) => a !== b,
};
const { sqrt, exp, log, log2, log10, log1p, expm1, floor, ceil, tanh, sin, cos, abs } = Math;
const mathFunctions = { sqrt, exp, log, log2, log10, log1p, expm1, floor, ceil, tanh, sin, cos, fabs: abs };

/** Applies a function to plain numbers; the result of an unknown size is an unknown size. */
const numeric = (a: Value, b: Value, fn: (a: number, b: number) => number): Num | undefined => {
  const [left, right] = [a, b].map((value) => (typeof value === "boolean" ? Number(value) : value)) as [Value, Value];
  if (!isNum(left) || !isNum(right)) return undefined;
  return typeof left === "number" && typeof right === "number" ? fn(left, right) : laterSize;
};

/** A binary operation on tensors, or on numbers if both operands are numbers. */
function arithmetic(plain: (a: number, b: number) => number, fn: (a: Var, b: Var) => Var, kind?: Dtype) {
  return (kit: Kit, a: Value, b: Value): Value => {
    const number = numeric(a, b, plain);
    if (number !== undefined) return number;
    const [left, right] = [kit.lift(a, "an operand"), kit.lift(b, "an operand")];
    return kit.zip(left, right, fn, kind ?? wider(left.dtype, right.dtype));
  };
}
const add = arithmetic(
  (a, b) => a + b,
  (a, b) => a.add(b),
);
const subtract = arithmetic(
  (a, b) => a - b,
  (a, b) => a.sub(b),
);
const multiply = arithmetic(
  (a, b) => a * b,
  (a, b) => a.mul(b),
);
const divide = arithmetic(
  (a, b) => a / b,
  (a, b) => a.div(b),
  "float32",
);
const power = arithmetic(
  (a, b) => a ** b,
  (a, b) => a.pow(b.shape.length === 0 && !b.tracked ? b.item() : b),
);

function stepwise(fn: (a: number, b: number) => number) {
  return (kit: Kit, a: Value, b: Value): Value => {
    const number = numeric(a, b, fn);
    if (number !== undefined) return number;
    const [left, right] = [kit.lift(a, "an operand"), kit.lift(b, "an operand")];
    return kit.stepZip(left, right, fn, wider(left.dtype, right.dtype));
  };
}

/** `x.to(dtype)` and its short forms. */
export function cast(kit: Kit, x: Tensor, dtype: Dtype): Tensor {
  if (x.dtype === dtype || dtype === "float32") return kit.each(x, (v) => v, dtype);
  return kit.step(x, dtype === "bool" ? (v) => (v === 0 ? 0 : 1) : Math.trunc, dtype);
}

/** `clamp`; each bound is a number, a tensor, or null. */
function clamp(kit: Kit, input: Value, low: Value, high: Value): Tensor {
  const x = kit.lift(input, "input");
  if (low === null && high === null) throw new CustomLossError("clamp requires min or max");
  if (low instanceof Tensor || high instanceof Tensor) {
    const above = low === null ? x : maximum(kit, x, low);
    return high === null ? above : minimum(kit, above, high);
  }
  for (const bound of [low, high]) {
    if (bound !== null && !isNum(bound))
      throw new CustomLossError(`a bound of clamp must be a number or a tensor, not ${describeValue(bound)}`);
  }
  const bounds = () => ({
    ...(low === null ? {} : { min: known(low as Num) }),
    ...(high === null ? {} : { max: known(high as Num) }),
  });
  return kit.each(x, (v) => v.clamp(bounds()), x.dtype);
}
export const maximum = (kit: Kit, a: Value, b: Value): Tensor => larger(kit, a, b, (x, y) => x.max(y));
export const minimum = (kit: Kit, a: Value, b: Value): Tensor => larger(kit, a, b, (x, y) => x.min(y));
function larger(kit: Kit, a: Value, b: Value, fn: (a: Var, b: Var) => Var): Tensor {
  const [left, right] = [kit.lift(a, "input"), kit.lift(b, "other")];
  return kit.zip(left, right, fn, wider(left.dtype, right.dtype));
}

export function addElementwise(list: Operations): void {
  for (const [functions, arrays] of [
    [smooth, 1],
    [smoothPairs, 2],
  ] as const) {
    for (const [name, fn] of Object.entries(functions)) {
      list.add(`torch.${name} .${name}`, "input", (kit, [x]) => kit.each(kit.lift(x!, "input"), fn, "float32", arrays));
    }
  }
  for (const [name, fn] of Object.entries(steps)) {
    list.add(`torch.${name} .${name}`, "input", (kit, [given]) => {
      const x = kit.lift(given!, "input");
      return kit.step(x, fn, x.dtype);
    });
  }
  for (const [name, fn] of Object.entries(tests)) {
    list.add(`torch.${name} .${name}`, "input", (kit, [x]) =>
      kit.step(kit.lift(x!, "input"), (v) => Number(fn(v)), "bool"),
    );
  }
  for (const [name, fn] of Object.entries(comparisons)) {
    list.add(`operator.${name} torch.${name} .${name}`, "input other", (kit, [a, b]) =>
      kit.stepZip(kit.lift(a!, "input"), kit.lift(b!, "other"), (x, y) => Number(fn(x, y)), "bool"),
    );
  }
  for (const [name, fn] of Object.entries(logical)) {
    list.add(`torch.logical_${name} .logical_${name}`, "input other", (kit, [a, b]) =>
      kit.stepZip(kit.lift(a!, "input"), kit.lift(b!, "other"), (x, y) => Number(fn(x !== 0, y !== 0)), "bool"),
    );
    const operator = name === "xor" ? name : `${name}_`;
    list.add(`operator.${operator} torch.bitwise_${name} .bitwise_${name}`, "input other", (kit, [a, b]) => {
      const [left, right] = [kit.lift(a!, "input"), kit.lift(b!, "other")];
      if (left.dtype !== "bool" || right.dtype !== "bool") {
        throw new CustomLossError(`${operator} supports only masks (bool)`);
      }
      return kit.stepZip(left, right, (x, y) => Number(fn(x !== 0, y !== 0)), "bool");
    });
  }
  const not = (kit: Kit, value: Value) => kit.step(kit.lift(value, "input"), (x) => Number(x === 0), "bool");
  list.add("torch.logical_not .logical_not", "input", (kit, [x]) => not(kit, x!));
  list.add("operator.invert torch.bitwise_not .bitwise_not", "input", (kit, [x]) => {
    if (kit.lift(x!, "input").dtype !== "bool") throw new CustomLossError("~ supports only masks (bool)");
    return not(kit, x!);
  });

  list.add("operator.add", "input other", (kit, [a, b]) => add(kit, a!, b!));
  list.add("operator.sub", "input other", (kit, [a, b]) => subtract(kit, a!, b!));
  const scaled = (kit: Kit, b: Value, alpha: Value) => (alpha === 1 ? b : multiply(kit, b, alpha));
  list.add("torch.add .add", "input other alpha=1", (kit, [a, b, by]) => add(kit, a!, scaled(kit, b!, by!)));
  list.add("torch.sub torch.subtract .sub .subtract", "input other alpha=1", (kit, [a, b, by]) =>
    subtract(kit, a!, scaled(kit, b!, by!)),
  );
  list.add("operator.mul torch.mul torch.multiply .mul .multiply", "input other", (kit, [a, b]) =>
    multiply(kit, a!, b!),
  );
  list.add(
    "operator.truediv torch.div torch.divide torch.true_divide .div .divide .true_divide",
    "input other rounding_mode?",
    (kit, [a, b, mode]) => {
      if (mode !== null) throw new CustomLossError("rounding_mode is not supported; use floor_divide");
      return divide(kit, a!, b!);
    },
  );
  const floorDivide = stepwise((a, b) => Math.floor(a / b));
  list.add("operator.floordiv torch.floor_divide .floor_divide", "input other", (kit, [a, b]) =>
    floorDivide(kit, a!, b!),
  );
  list.add("operator.mod torch.remainder .remainder", "input other", (kit, [a, b]) =>
    subtract(kit, a!, multiply(kit, b!, floorDivide(kit, a!, b!))),
  );
  list.add("operator.pow torch.pow .pow", "input exponent", (kit, [a, b]) => power(kit, a!, b!));
  list.add("operator.neg torch.neg torch.negative .neg .negative", "input", (kit, [x]) =>
    isNum(x!) ? numeric(x, 0, (a) => -a)! : kit.each(kit.lift(x!, "input"), (v) => v.neg(), dtypeOf(x!)),
  );
  list.add("operator.pos .positive torch.positive", "input", (kit, [x]) => (isNum(x!) ? x! : kit.lift(x!, "input")));
  list.add("operator.abs torch.abs torch.absolute .abs .absolute", "input", (kit, [x]) =>
    kit.each(kit.lift(x!, "input"), (v) => v.abs(), dtypeOf(x!)),
  );
  list.add("torch.square .square", "input", (kit, [x]) => multiply(kit, x!, x!));
  list.add("torch.clamp torch.clip .clamp .clip", "input min? max?", (kit, [x, low, high]) =>
    clamp(kit, x!, low!, high!),
  );
  list.add("torch.clamp_min .clamp_min", "input min", (kit, [x, low]) => clamp(kit, x!, low!, null));
  list.add("torch.clamp_max .clamp_max", "input max", (kit, [x, high]) => clamp(kit, x!, null, high!));
  list.add("torch.maximum .maximum", "input other", (kit, [a, b]) => maximum(kit, a!, b!));
  list.add("torch.minimum .minimum", "input other", (kit, [a, b]) => minimum(kit, a!, b!));
  list.add("torch.where", "condition input other", (kit, [c, a, b]) =>
    kit.where(kit.lift(c!, "condition"), kit.lift(a!, "input"), kit.lift(b!, "other")),
  );
  list.add(".where", "input condition other", (kit, [a, c, b]) =>
    kit.where(kit.lift(c!, "condition"), kit.lift(a!, "input"), kit.lift(b!, "other")),
  );
  list.add("torch.masked_fill .masked_fill", "input mask value", (kit, [x, mask, value]) =>
    kit.where(kit.lift(mask!, "mask"), kit.lift(value!, "value"), kit.lift(x!, "input")),
  );
  list.add("torch.logaddexp .logaddexp", "input other", (kit, [a, b]) =>
    kit.zip(kit.lift(a!, "input"), kit.lift(b!, "other"), (x, y) => x.add(y.sub(x).softplus()), "float32", 3),
  );
  list.add("torch.nan_to_num .nan_to_num", "input nan=0 posinf? neginf?", (kit, [given, nan, high, low]) => {
    const x = kit.lift(given!, "input");
    const where = (test: (v: number) => boolean, value: Value, from: Tensor) =>
      kit.where(
        kit.step(x, (v) => Number(test(v)), "bool"),
        kit.lift(value, "a replacement"),
        from,
      );
    const most = 3.4028234663852886e38; // the largest float32
    const finite = where(
      (v) => v === -Infinity,
      low ?? -most,
      where((v) => v === Infinity, high ?? most, x),
    );
    return where(Number.isNaN, nan!, finite);
  });
  list.add("torch.detach .detach", "input", (kit, [x]) => kit.detach(kit.lift(x!, "input")));
  list.add("torch.clone .clone .contiguous", "input", (kit, [x]) => kit.lift(x!, "input"));

  for (const [name, fn] of Object.entries(mathFunctions)) {
    list.add(`math.${name}`, "x", (_, [x]) => numeric(x!, 0, (value) => fn(value)) ?? notPlain(name, x!));
  }
  list.add("math.pow", "x y", (_, [x, y]) => numeric(x!, y!, (a, b) => a ** b) ?? notPlain("pow", x!));

  for (const [names, dtype] of [
    [".float .double", "float32"],
    [".long .int", "int64"],
    [".bool", "bool"],
  ] as const) {
    list.add(names, "input", (kit, [x]) => cast(kit, kit.lift(x!, "input"), dtype));
  }
  list.add(".to", "input first? second? dtype? device? copy=false non_blocking=false", (kit, [x, ...settings]) => {
    let made = kit.lift(x!, "input");
    for (const setting of settings) {
      if (hasKind(setting, "dtype")) made = cast(kit, made, setting.dtype);
      else if (setting instanceof Tensor) made = cast(kit, made, setting.dtype);
      else if (
        setting !== null &&
        typeof setting !== "boolean" &&
        typeof setting !== "string" &&
        !hasKind(setting, "setting")
      ) {
        throw new CustomLossError(`.to requires a dtype, not ${describeValue(setting)}`);
      }
    }
    return made;
  });
  list.add(".type_as", "input other", (kit, [x, other]) => cast(kit, kit.lift(x!, "input"), dtypeOf(other!)));
  list.add("torch.zeros_like", "input dtype? device?", likeBy(0));
  list.add("torch.ones_like", "input dtype? device?", likeBy(1));
  list.add("torch.full_like", "input fill_value dtype? device?", (kit, [x, value]) => {
    const filling = kit.lift(value!, "fill_value");
    return kit.zip(kit.detach(kit.lift(x!, "input")), filling, (a, b) => a.pow(0).mul(b), dtypeOf(x!), 2);
  });
}

const likeBy =
  (value: number) =>
  (kit: Kit, [x, dtype]: readonly Value[]) =>
    kit.each(
      kit.lift(x!, "input"),
      (v) => constant(new Float64Array(v.size).fill(value), v.shape),
      hasKind(dtype!, "dtype") ? dtype.dtype : dtypeOf(x!),
    );

const dtypeOf = (value: Value): Dtype => (value instanceof Tensor ? value.dtype : "float32");
const notPlain = (name: string, value: Value): never => {
  throw new CustomLossError(`math.${name} requires a plain number, not ${describeValue(value)}; use torch.${name}`);
};
