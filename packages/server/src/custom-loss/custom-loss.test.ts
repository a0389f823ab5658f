/** Losses traced by the official SDK compared with PyTorch (`test/fixtures/custom-losses.json`), and graphs that must be rejected. */
import { readFileSync } from "node:fs";
import { CustomLossGraph, type CustomLossInput } from "@tinklet/wire";
import { describe, expect, it } from "vitest";
import { CustomLossError } from "./custom-loss-error.ts";
import { readLoss } from "./read-loss.ts";
import { type LossInput, runLoss } from "./run-loss.ts";

interface Recorded {
  readonly name: string;
  readonly inputs: readonly CustomLossInput[];
  readonly graph: unknown;
  readonly data: readonly {
    readonly inputs: Readonly<Record<string, LossInput>>;
    readonly loss: number;
    readonly gradient: readonly number[];
    readonly metrics: Readonly<Record<string, number>>;
  }[];
}
const recorded = JSON.parse(
  readFileSync(new URL("../../../../test/fixtures/custom-losses.json", import.meta.url), "utf8"),
) as Recorded[];

const near = (ours: number, theirs: number, what: string) => {
  const error = Math.abs(ours - theirs) / Math.max(1, Math.abs(theirs));
  expect(error, `${what}: ${ours}, PyTorch ${theirs}`).toBeLessThan(1e-5);
};

describe("against PyTorch", () => {
  it("knows at least 30 recorded losses", () => {
    expect(recorded.length).toBeGreaterThanOrEqual(30);
  });

  it.each(recorded.map((each) => [each.name, each] as const))("%s", (_, { inputs, graph, data }) => {
    const loss = readLoss(inputs, CustomLossGraph.decode(graph));
    for (const [i, datum] of data.entries()) {
      const ours = runLoss(loss, datum.inputs);
      near(ours.loss, datum.loss, `loss of datum ${i}`);
      expect(ours.slopes.length).toBe(datum.gradient.length);
      for (const [k, slope] of datum.gradient.entries())
        near(ours.slopes[k] as number, slope, `slope ${k} of datum ${i}`);
      expect([...ours.metrics.keys()]).toEqual(Object.keys(datum.metrics));
      for (const [name, value] of Object.entries(datum.metrics)) near(ours.metrics.get(name) as number, value, name);
    }
  });
});

type Wire = Record<string, unknown>;
const ref = (name: string) => ({ ref: name });
const call = (target: string, args: unknown[] = [ref("logprobs")], kwargs: Wire = {}): Wire => ({
  op: "call_function",
  name: "call",
  target,
  args,
  kwargs,
});
const method = (target: string, args: unknown[] = [ref("logprobs")], kwargs: Wire = {}): Wire => ({
  ...call(target, args, kwargs),
  op: "call_method",
});
const start: Wire = { op: "placeholder", name: "logprobs", target: "logprobs" };
const sum: Wire = { ...method("sum"), name: "total" };
const end = (loss: unknown = ref("total"), metrics: unknown = { dict: {} }): Wire => ({
  op: "output",
  name: "output",
  target: "output",
  args: [{ tuple: [loss, metrics] }],
});
/** A valid graph with additional unused nodes. */
const beside = (...nodes: Wire[]): Wire[] => [start, ...nodes, sum, end()];
const nested = (depth: number, inner: unknown = 1): unknown =>
  Array.from({ length: depth }).reduce<unknown>((inside) => ({ tuple: [inside] }), inner);

const names = [
  ..."__import__ eval exec open compile globals input breakpoint os.system os.popen subprocess.run".split(" "),
  ..."builtins.eval builtins.__import__ builtins.getattr importlib.import_module pickle.loads posix.system".split(" "),
  ..."torch.load torch.save torch.ops.aten.add torch.hub.load torch.jit.load torch.compile torch.from_file".split(" "),
  ..."torch.utils.cpp_extension.load torch._C._nn.gelu torch.autograd.grad torch.manual_seed torch.rand".split(" "),
  ..."torch.randn torch.empty torch.tensor torch.einsum torch.linalg.inv torch.svd torch.sort torch.topk".split(" "),
  ..."torch.nn.functional.dropout torch.nn.functional.linear torch.nn.functional.embedding torch.EXP Torch.exp".split(
    " ",
  ),
  ..."math.__loader__ operator.attrgetter operator.methodcaller operator.setitem operator.delitem operator.iadd".split(
    " ",
  ),
  ..."operator.call operator.itemgetter constructor __proto__ toString hasOwnProperty valueOf prototype".split(" "),
  ..."torch.constructor torch.__proto__ torch.__class__.__mro__ .exp .sum exp torch torch. torch..exp operator.".split(
    " ",
  ),
  "",
  "torch.exp;import os",
  "torch.exp\n",
  " torch.exp",
  "torch.ехр",
  "lambda: 0",
  "x".repeat(5000),
];
const methods = [
  ..."item numpy tolist backward cpu cuda data_ptr storage untyped_storage set_ resize_ copy_ add_ mul_ exp_".split(
    " ",
  ),
  ..."share_memory_ register_hook retain_grad requires_grad_ apply_ map_ __class__ __reduce__ __getattribute__".split(
    " ",
  ),
  ..."__import__ constructor __proto__ toString valueOf map_values sort topk to_sparse type half bfloat16".split(" "),
  "",
  ".sum",
  "torch.sum",
  "sum ",
];
const attributes = "data grad grad_fn __class__ __dict__ constructor __proto__ storage is_cuda real H names".split(" ");
const shapes: unknown[] = [
  [1e9],
  [1e5, 1e5],
  [2 ** 53],
  [-5],
  [1, 1, 1, 1, 1, 1, 1],
  [0.5],
  ["4"],
  [null],
  [[3]],
  nested(3),
];
const bad: Record<string, () => Wire[]> = {
  "an empty graph": () => [],
  "no output": () => [start, sum],
  "an output alone": () => [end()],
  "an output in the middle": () => [start, sum, end(), sum, end()],
  "no inputs": () => [sum, end()],
  "an input of another name": () => [{ ...start, target: "other" }, sum, end()],
  "an input after a call": () => [start, sum, { ...start, name: "again" }, end()],
  "an input with arguments": () => [{ ...start, args: [1] }, sum, end()],
  "a node twice": () => [start, sum, sum, end()],
  "a node that reads itself": () => [start, method("sum", [ref("call")]), sum, end()],
  "a cycle of two": () => [
    start,
    { ...method("exp", [ref("b")]), name: "a" },
    { ...method("exp", [ref("a")]), name: "b" },
    sum,
    end(),
  ],
  "a reference forward": () => [start, method("exp", [ref("total")]), sum, end()],
  "a reference to nothing": () => [start, sum, end(ref("nothing"))],
  "a reference by __proto__": () => [start, sum, end(ref("__proto__"))],
  "a reference by number": () => [start, sum, end({ ref: 0 })],
  "a loss that is a number": () => [start, sum, end(1)],
  "a loss that is a vector": () => [start, { ...method("exp"), name: "total" }, end()],
  "a loss that is a tuple": () => [start, { ...method("size"), name: "total" }, end()],
  "a loss without metrics": () => [start, sum, { ...end(), args: [ref("total")] }],
  "metrics as a list": () => [start, sum, end(ref("total"), [ref("total")])],
  "a metric of another name": () => [start, sum, end(ref("total"), { dict: { "loss:sum": ref("total") } })],
  "a metric without a reduction": () => [start, sum, end(ref("total"), { dict: { "custom/a": ref("total") } })],
  "a metric that is a number": () => [start, sum, end(ref("total"), { dict: { "custom/a:sum": 1 } })],
  "a metric called __proto__": () => [
    start,
    sum,
    end(ref("total"), JSON.parse('{"dict":{"__proto__":{"ref":"total"}}}') as unknown),
  ],
  get_attr: () => beside({ ...call("weight", []), op: "get_attr" }),
  call_module: () => beside({ ...call("linear"), op: "call_module" }),
  "2,000 nodes": () => [
    start,
    ...Array.from({ length: 2000 }, (_, i) => ({ ...method("exp"), name: `n${i}` })),
    sum,
    end(),
  ],
  "a long list": () => beside(call("torch.stack", [Array.from({ length: 1000 }, () => ref("logprobs"))])),
  "deep tuples": () => beside(call("torch.stack", [nested(50)])),
  "very deep tuples": () => beside(call("torch.stack", [nested(3000)])),
  "two keys in an argument": () => beside(method("exp", [{ ref: "logprobs", tuple: [] }])),
  "no key in an argument": () => beside(method("exp", [{}])),
  "an argument of another kind": () => beside(method("exp", [{ __reduce__: "os.system" }])),
  "a callable as an argument": () => beside(method("exp", [{ function: "os.system" }])),
  "a dict as an argument": () => beside(method("exp", [{ dict: {} }])),
  "a slice of four": () => beside(call("operator.getitem", [ref("logprobs"), { slice: [0, 1, 2, 3] }])),
  "a slice backwards": () => beside(call("operator.getitem", [ref("logprobs"), { slice: [null, null, -1] }])),
  "a slice of texts": () => beside(call("operator.getitem", [ref("logprobs"), { slice: ["a", null, null] }])),
  "two ellipses": () =>
    beside(call("operator.getitem", [ref("logprobs"), { tuple: [{ ellipsis: true }, { ellipsis: true }] }])),
  "an index by text": () => beside(call("operator.getitem", [ref("logprobs"), "__class__"])),
  "three indices": () => beside(call("operator.getitem", [ref("logprobs"), { tuple: [0, 0, 0] }])),
  "an index by fractions": () => beside(call("operator.getitem", [ref("logprobs"), ref("logprobs")])),
  "a number like NaN": () => beside(method("clamp", [ref("logprobs")], { min: { float: "NaN()" } })),
  "a dtype that is not there": () => beside(method("to", [ref("logprobs"), { dtype: "complex64" }])),
  "a dtype of another kind": () => beside(method("to", [ref("logprobs"), { dtype: { ref: "logprobs" } }])),
  "a device that is a path": () => beside(method("to", [ref("logprobs"), { device: "/dev/sda" }])),
  "an argument twice": () => beside(method("sum", [ref("logprobs"), 0], { dim: 0 })),
  "an argument that is not there": () => beside(method("sum", [ref("logprobs")], { out: ref("logprobs") })),
  "an argument by __proto__": () => beside(method("sum", [ref("logprobs")], JSON.parse('{"__proto__":1}') as Wire)),
  "an argument too many": () => beside(method("exp", [ref("logprobs"), 1, 2, 3])),
  "an argument too few": () => beside(call("operator.add", [ref("logprobs")])),
  "an axis that is not there": () => beside(method("sum", [ref("logprobs")], { dim: 5 })),
  "an axis twice": () => beside(method("sum", [ref("logprobs"), [0, 0]])),
  "a text as an operand": () => beside(call("operator.mul", [ref("logprobs"), "9".repeat(100)])),
  "a very long text": () => beside(call("operator.mul", [ref("logprobs"), "9".repeat(100_000)])),
  "a large integer": () => beside(call("torch.zeros", [2 ** 60])),
  "a stack of ranks": () => beside(call("torch.stack", [[ref("logprobs"), ref("logprobs")], 9])),
  "a matrix where there is none": () => beside(method("transpose", [ref("logprobs"), 0, 1])),
};
const hostile: [string, Wire[]][] = [
  ...names.map((name): [string, Wire[]] => [`function ${name.slice(0, 40)}`, beside(call(name))]),
  ...methods.map((name): [string, Wire[]] => [`method ${name}`, beside(method(name))]),
  ...attributes.map((name): [string, Wire[]] => [
    `attribute ${name}`,
    beside(call("getattr", [ref("logprobs"), name])),
  ]),
  ...shapes.flatMap((shape): [string, Wire[]][] => [
    [`zeros ${JSON.stringify(shape)}`, beside(call("torch.zeros", [shape]))],
    [`expand ${JSON.stringify(shape)}`, beside(method("expand", [ref("logprobs"), { tuple: [shape, -2] }]))],
    [`repeat ${JSON.stringify(shape)}`, beside(method("repeat", [ref("logprobs"), { tuple: [shape, 1e9] }]))],
  ]),
  ...Object.entries(bad).map(([name, graph]): [string, Wire[]] => [name, graph()]),
];

describe("rejected graphs", () => {
  const logprobs: CustomLossInput[] = [{ name: "logprobs", rank: 1 }];
  const refusalOf = (nodes: Wire[]): unknown => {
    try {
      readLoss(logprobs, CustomLossGraph.decode({ format: 1, nodes }));
      return undefined;
    } catch (error) {
      return error;
    }
  };

  it("the graph without the hostile node is accepted", () => {
    expect(refusalOf(beside(method("exp")))).toBeUndefined();
  });

  it("are at least 200", () => {
    expect(hostile.length).toBeGreaterThanOrEqual(200);
  });

  it.each(hostile)("%s", (_, nodes) => {
    const error = refusalOf(nodes) as Error | undefined;
    expect(error).toBeInstanceOf(Error);
    expect(["CustomLossError", "ResponseValidationError"]).toContain(error?.name);
    expect(error?.message.length).toBeLessThan(600);
  });

  it("names the operation that is not allowed", () => {
    expect(refusalOf(beside(call("torch.einsum")))).toEqual(
      new CustomLossError('the function "torch.einsum" is not allowed in a custom loss', 'node "call"'),
    );
  });

  it("does not expand nested lists in an error message", () => {
    const pairs = Array.from({ length: 60 }, (_, i) => ({
      ...call("operator.pos", [{ tuple: i === 0 ? [1, 1] : [ref(`t${i - 1}`), ref(`t${i - 1}`)] }]),
      name: `t${i}`,
    }));
    expect(refusalOf(beside(...pairs))).toHaveProperty(
      "message",
      expect.stringMatching(/must be a tensor or a number, not a list of 2/),
    );
    const named = call("getattr", [ref("logprobs"), { tuple: ["shape"] }]);
    expect(refusalOf(beside(named))).toHaveProperty(
      "message",
      expect.stringMatching(/must be a string, not a list of 1/),
    );
    const reduced = call("torch.nn.functional.mse_loss", [ref("logprobs"), ref("logprobs")], { reduction: [["sum"]] });
    expect(refusalOf(beside(reduced))).toHaveProperty("message", expect.stringMatching(/not a list of 1/));
  });

  it("the error for an integer above 2^53 contains the integer", () => {
    const long = 12345678901234567890n;
    for (const argument of [{ ref: long }, { dtype: long }, { ref: [long] }]) {
      expect(refusalOf(beside(method("exp", [argument])))).toHaveProperty(
        "message",
        expect.stringMatching(/12345678901234567890/),
      );
    }
  });

  it.each([
    ["no logprobs", [{ name: "weights", rank: 1 }]],
    ["logprobs without an axis", [{ name: "logprobs", rank: 0 }]],
    ["an input twice", [...logprobs, ...logprobs]],
    ["a name with capitals", [...logprobs, { name: "Weights", rank: 1 }]],
    ["seventeen inputs", Array.from({ length: 17 }, (_, i) => ({ name: i === 0 ? "logprobs" : `x${i}`, rank: 1 }))],
  ] as [string, CustomLossInput[]][])("inputs: %s", (_, inputs) => {
    expect(() => readLoss(inputs, { format: 1, nodes: [] })).toThrow(CustomLossError);
  });
});

describe("limits of a run", () => {
  const vectors = (length: number) => ({
    logprobs: { data: new Float64Array(length).fill(-1), shape: [length], dtype: "float32" as const },
  });
  const graph = (...nodes: Wire[]) =>
    readLoss([{ name: "logprobs", rank: 1 }], CustomLossGraph.decode({ nodes: [start, ...nodes, end()] }));

  it("rejects a tensor whose size is quadratic in the data", () => {
    const square = graph(
      { ...method("unsqueeze", [ref("logprobs"), 1]), name: "column" },
      { ...call("operator.mul", [ref("logprobs"), ref("column")]), name: "square" },
      { ...method("sum", [ref("square")]), name: "total" },
    );
    expect(runLoss(square, vectors(10)).loss).toBe(100);
    expect(() => runLoss(square, vectors(5000))).toThrow(/must have at most 4194304 elements/);
  });

  it("rejects many tensors that are small individually", () => {
    const long = graph(...Array.from({ length: 900 }, (_, i) => ({ ...method("exp"), name: `n${i}` })), sum);
    expect(() => runLoss(long, vectors(100_000))).toThrow(/one datum must have at most 16777216 elements/);
  });

  it.each(["max", "min"])("counts the elements that torch.%s along an axis reads and allocates", (name) => {
    const long = graph(
      { ...method("unsqueeze", [ref("logprobs"), 1]), name: "column" },
      ...Array.from({ length: 60 }, (_, i) => ({ ...call(`torch.${name}`, [ref("column"), 1]), name: `n${i}` })),
      sum,
    );
    expect(() => runLoss(long, vectors(100_000))).toThrow(/one datum must have at most 16777216 elements/);
  });

  it("counts the elements of all data of a pass together", () => {
    const loss = graph(sum);
    const budget = { elements: 45 }; // per datum: ten input elements and ten that are summed
    runLoss(loss, vectors(10), budget);
    runLoss(loss, vectors(10), budget);
    expect(() => runLoss(loss, vectors(10), budget)).toThrow(/intermediate tensors of a pass/);
  });

  const empty = { ...call("operator.getitem", [ref("logprobs"), { slice: [0, 0, null] }]), name: "empty" };
  const large = {
    ...method("mul", [ref("count"), 10_000]),
    name: "large",
    op: "call_function",
    target: "operator.mul",
  };
  const count = { ...method("numel"), name: "count" };
  /** Tensors without elements that also have an axis of 10,000 per log-prob, by every operation that can create one. */
  const wide: Record<string, Wire[]> = {
    view: [method("view", [ref("empty"), 0, ref("large")])],
    "view of a shape": [method("reshape", [ref("empty"), { tuple: [ref("large"), 0] }])],
    "view with a size that is filled in": [method("view", [ref("empty"), ref("large"), -1])],
    expand: [
      { ...method("unsqueeze", [ref("empty"), 1]), name: "column" },
      method("expand", [ref("column"), 0, ref("large")]),
    ],
    broadcast_to: [
      { ...method("unsqueeze", [ref("empty"), 0]), name: "row" },
      call("torch.broadcast_to", [ref("row"), [ref("large"), 0]]),
    ],
    repeat: [method("repeat", [ref("empty"), ref("large"), 1])],
    zeros: [call("torch.zeros", [[0, ref("large")]])],
    ones: [call("torch.ones", [[ref("large"), 0]])],
    full: [call("torch.full", [[0, ref("large")], 1])],
    new_zeros: [method("new_zeros", [ref("logprobs"), [0, ref("large")]])],
    one_hot: [
      { ...method("long", [ref("empty")]), name: "whole" },
      { ...method("view", [ref("whole"), 0, ref("large")]), name: "wide" },
      call("torch._C._nn.one_hot", [ref("wide"), 2]),
    ],
    arange: [
      { ...call("torch.arange", [ref("large")]), name: "range" },
      { ...call("operator.getitem", [ref("range"), { tuple: [null, { slice: [0, 0, null] }] }]), name: "none" },
      call("torch.add", [ref("none"), ref("none")]),
    ],
    index: [
      { ...call("torch.zeros", [ref("large")], { dtype: { dtype: "int64" } }), name: "positions" },
      { ...method("unsqueeze", [ref("empty"), 0]), name: "row" },
      call("operator.getitem", [ref("row"), ref("positions")]),
    ],
    index_select: [
      { ...call("torch.zeros", [ref("large")], { dtype: { dtype: "int64" } }), name: "positions" },
      { ...method("unsqueeze", [ref("empty"), 0]), name: "row" },
      call("torch.index_select", [ref("row"), 0, ref("positions")]),
    ],
    cat: [
      ...[0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => ({ ...call("torch.zeros", [[500_000, 0]]), name: `part${i}` })),
      call("torch.cat", [[0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => ref(`part${i}`))]),
    ],
    matmul: [
      { ...call("torch.zeros", [[3000, 0]]), name: "tall" },
      { ...call("torch.zeros", [[0, 3000]]), name: "flat" },
      call("torch.matmul", [ref("tall"), ref("flat")]),
    ],
    "broadcasting of an operator": [
      { ...call("torch.zeros", [[3000, 1, 0]]), name: "tall" },
      { ...call("torch.zeros", [[1, 3000, 1]]), name: "flat" },
      call("operator.add", [ref("tall"), ref("flat")]),
    ],
    where: [
      { ...call("torch.ones", [[3000, 1, 0]]), name: "tall" },
      { ...call("torch.zeros", [[1, 3000, 1]]), name: "flat" },
      call("torch.where", [ref("tall"), ref("flat"), 0]),
    ],
  };

  it.each(Object.entries(wide))("rejects a large axis of a tensor without elements: %s", (_, nodes) => {
    const loss = graph(count, large, empty, ...nodes, sum);
    const before = process.memoryUsage().arrayBuffers;
    expect(() => runLoss(loss, vectors(1000))).toThrow(/must have at most 4194304 elements/);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100e6);
  });

  it("rejects at creation a large constant axis of a tensor without elements", () => {
    const attack = [
      empty,
      { ...method("view", [ref("empty"), 0, 40_000_000]), name: "wide" },
      { ...call("torch.logsumexp", [ref("wide"), 0]), name: "huge" },
      sum,
    ];
    expect(() => graph(...attack)).toThrow(/at most 4194304 elements, got sizes \[.*40000000\]/);
  });

  it.each(["logsumexp", "sum", "mean", "any", "all", "std"])("%s over an axis without elements is accepted", (name) => {
    const few = graph(
      empty,
      { ...method("view", [ref("empty"), 0, 7]), name: "wide" },
      { ...call(`torch.${name}`, [ref("wide"), 0]), name: "folded" },
      sum,
    );
    expect(runLoss(few, vectors(3)).loss).toBe(-3);
  });

  it("counts the iterations over tensors without elements, and the inputs", () => {
    const masks = Array.from({ length: 20 }, (_, i) => [
      { ...call("operator.getitem", [ref("rows"), ref("mask")]), name: `kept${i}` },
    ]).flat();
    const loss = graph(
      { ...call("operator.gt", [ref("logprobs"), 0]), name: "mask" },
      { ...method("unsqueeze", [ref("logprobs"), 1]), name: "column" },
      {
        ...call("operator.getitem", [ref("column"), { tuple: [{ ellipsis: true }, { slice: [0, 0, null] }] }]),
        name: "rows",
      },
      ...masks,
      sum,
    );
    expect(() => runLoss(loss, vectors(500_000))).toThrow(/one datum must have at most 16777216 elements/);
    const inputs = ["logprobs", ...Array.from({ length: 5 }, (_, i) => `x${i}`)];
    const several = readLoss(
      inputs.map((name) => ({ name, rank: name === "logprobs" ? 1 : 2 })),
      CustomLossGraph.decode({
        nodes: [...inputs.map((name) => ({ op: "placeholder", name, target: name })), sum, end()],
      }),
    );
    let made = 0;
    const input = (shape: number[]): LossInput => ({
      shape,
      dtype: "float32",
      get data() {
        made++;
        return new Float64Array(shape.reduce((a, b) => a * b, 1));
      },
    });
    const of = (shape: number[]) => Object.fromEntries(inputs.slice(1).map((name) => [name, input(shape)]));
    expect(() => runLoss(several, { ...vectors(1), ...of([0, 5_000_000]) })).toThrow(
      /must have at most 4194304 elements/,
    );
    expect(made).toBe(0);
    expect(() => runLoss(several, { ...vectors(1), ...of([2000, 2000]) })).toThrow(/of one datum/);
    expect(made).toBe(4);
  });

  it("rejects a missing input, an input of another rank, and shapes that do not match", () => {
    const loss = readLoss(
      [
        { name: "logprobs", rank: 1 },
        { name: "weights", rank: 1 },
      ],
      CustomLossGraph.decode({
        nodes: [
          start,
          { op: "placeholder", name: "weights", target: "weights" },
          call("operator.mul", [ref("logprobs"), ref("weights")]),
          { ...method("sum", [ref("call")]), name: "total" },
          end(),
        ],
      }),
    );
    const weights = (shape: number[]) => ({ data: [1, 1], shape, dtype: "float32" as const });
    expect(() => runLoss(loss, vectors(3))).toThrow("weights: is missing from loss_fn_inputs");
    expect(() => runLoss(loss, { ...vectors(3), weights: weights([1, 2]) })).toThrow("declared with rank 1");
    expect(() => runLoss(loss, { ...vectors(3), weights: weights([2]) })).toThrow('node "call"');
  });

  it("rejects a gradient that is not finite, and a loss that does not depend on the log-probs", () => {
    const logarithm = graph({ ...method("log"), name: "log" }, { ...method("sum", [ref("log")]), name: "total" });
    const zero = { logprobs: { data: [0], shape: [1], dtype: "float32" as const } };
    expect(() => runLoss(logarithm, zero)).toThrow("the gradient must be finite, but is Infinity for log-prob 0");
    const constant = graph({ ...method("detach"), name: "fixed" }, { ...method("sum", [ref("fixed")]), name: "total" });
    expect(() => runLoss(constant, vectors(2))).toThrow("does not depend on logprobs");
  });
});
