/**
 * Every value that was recorded from the official SDK, compared with ours in both directions. A difference that is not on
 * the explained list fails; an explained difference that no value shows any more fails too.
 */
import { readFileSync } from "node:fs";
import { omitUndefined } from "@tinklet/wire/options";
import protobuf from "protobufjs";
import { TinkerError } from "tinklet";
import * as wire from "tinklet/wire";
import { afterAll, describe, expect, it } from "vitest";
import { differences, type Outcome } from "./differences.ts";
import {
  build,
  commonPart,
  construct,
  type Entry,
  fixture,
  messages,
  neutral,
  neutralJson,
  underWireNames,
  unknownInput,
  type Version,
  versions,
} from "./fixtures.ts";
import { report } from "./report.ts";

const proto = protobuf.parse(
  readFileSync(new URL("../../../packages/wire/src/proto/tinker_public.proto", import.meta.url), "utf8"),
  { keepCase: true },
).root;
/** Protobuf bytes as an object: maps have no order, so bytes are compared after this. */
const readProto = (type: string, bytes: Uint8Array) =>
  proto
    .lookupType(`tinker_public.${type}`)
    .toObject(proto.lookupType(`tinker_public.${type}`).decode(bytes), { longs: String, bytes: String, enums: Number });
const bytesOf = (entry: Entry) => Buffer.from(entry.proto ?? "", "base64");

/** What ours did with a recorded value: the same form as what Python did, or its refusal. */
function attempt(body: () => unknown): Outcome {
  try {
    return { value: body() };
  } catch (error) {
    if (error instanceof TinkerError) return { refused: error.message };
    throw error;
  }
}

function encodeRequestValue(entry: Entry): unknown {
  const message = messages.get(entry.type)!;
  const value = construct(entry.type, (entry.input ?? {}) as Record<string, unknown>) as object;
  const encoded = message.encode(value);
  return neutralJson(wire.stringifyJson(encoded));
}

function encodeTrainingValue(entry: Entry): unknown {
  const built = construct(entry.type, (entry.input ?? {}) as Record<string, unknown>);
  const request = (data: wire.Datum[]) =>
    wire.encodeForwardBackwardRequest({ modelId: "m", forwardBackwardInput: { data, lossFn: "" } });
  if (entry.type === "TensorData") {
    const datum = new wire.Datum({
      modelInput: wire.ModelInput.empty(),
      lossFnInputs: { t: built as wire.TensorData },
    });
    return readProto("ForwardBackwardRequest", request([datum]))["data"][0].loss_fn_inputs.t;
  }
  if (entry.type === "Datum") return readProto("ForwardBackwardRequest", request([built as wire.Datum]))["data"][0];
  const given = built as wire.ForwardBackwardRequest;
  const bytes = wire.encodeForwardBackwardRequest({ ...given, forwardOnly: entry.forwardOnly ?? false });
  return readProto("ForwardBackwardRequest", bytes);
}

const expectedTraining = (entry: Entry): unknown =>
  readProto(entry.type === "TensorData" ? "Tensor" : entry.type, bytesOf(entry));

function decodeResult(entry: Entry): unknown {
  if (entry.type === "SampleResponse") {
    const response = wire.decodeSampleResponse(bytesOf(entry));
    return neutral({
      prompt_cache_hit_tokens: response.promptCacheHitTokens,
      prompt_logprobs: response.promptLogprobs,
      sequences: response.sequences.map(({ stopReason, tokens, logprobs, topkLogprobs }) => ({
        stop_reason: stopReason,
        tokens,
        logprobs,
        ...omitUndefined({ topk_logprobs: topkLogprobs }),
      })),
      topk_prompt_logprobs: response.topkPromptLogprobs,
      ...omitUndefined({
        target_prompt_logprobs: response.targetPromptLogprobs,
        prompt_alt_tokens: response.promptAltTokens,
      }),
    });
  }
  const output = wire.decodeForwardBackwardOutput(bytesOf(entry));
  return neutral({
    loss_fn_output_type: output.lossFnOutputType,
    loss_fn_outputs: output.lossFnOutputs,
    metrics: output.metrics,
  });
}

type Check = (entry: Entry, version: Version) => { ours: Outcome; theirs: Outcome } | undefined;
const refusedBy = (entry: Entry): Outcome | undefined => entry.error && { refused: entry.error.type };

const checks: Record<string, Check> = {
  requests: (entry, version) => {
    const message = messages.get(entry.type);
    if (message === undefined || (version !== "0.25.0" && unknownInput(message, entry.input).length > 0))
      return undefined;
    // a field that a class's constructor has no place for cannot even be written down
    if (entry.type === "ModelInput" && entry.id.endsWith("unknown field")) return undefined;
    const theirs = () => commonPart(message, neutralJson(entry.wire as string));
    const ours = attempt(() => commonPart(message, encodeRequestValue(entry)));
    return { ours, theirs: refusedBy(entry) ?? { value: theirs() } };
  },
  training: (entry) => ({
    ours: attempt(() => encodeTrainingValue(entry)),
    theirs: refusedBy(entry) ?? { value: expectedTraining(entry) },
  }),
  responses: (entry) => {
    const message = messages.get(entry.type);
    if (message === undefined) return undefined;
    const ours = attempt(() => underWireNames(message, message.decode(wire.parseJson(entry.text as string))));
    return { ours, theirs: refusedBy(entry) ?? { value: neutral(commonPart(message, entry.parsed)) } };
  },
  results: (entry) => ({
    ours: attempt(() => decodeResult(entry)),
    theirs: refusedBy(entry) ?? { value: withoutNulls(neutral(entry.parsed) as Record<string, unknown>) },
  }),
};

/** A recorded sample without what is null in it: 0.25.0 does not have those parts. The id of a sequence comes with the promise. */
function withoutNulls(parsed: Record<string, unknown>): unknown {
  const { target_prompt_logprobs: target, prompt_alt_tokens: alternatives, ...rest } = parsed;
  const parts = {
    ...rest,
    ...omitUndefined({
      target_prompt_logprobs: target ?? undefined,
      prompt_alt_tokens: alternatives ?? undefined,
    }),
  } as Record<string, unknown>;
  if (!Array.isArray(parts["sequences"])) return parts;
  return {
    ...parts,
    sequences: parts["sequences"].map((sequence: Record<string, unknown>) => {
      const { sequence_id: _id, topk_logprobs: topk, ...common } = sequence;
      return { ...common, ...omitUndefined({ topk_logprobs: topk ?? undefined }) };
    }),
  };
}

/**
 * Types that have no message of ours: a path is a class of its own, the base of a family stands for any object with a `type`, and
 * pydantic's form of a tensor is compared inside the messages that hold one. Everything else missing is an error.
 */
const elsewhere = new Set([
  "ParsedCheckpointTinkerPath",
  "OptimParamsBase",
  "OptimizerConfigBase",
  "pydantic:TensorData",
]);
const used = new Map(differences.map((difference) => [difference.id, 0]));

describe.each(versions)("values of tinker %s", (version: Version) => {
  it.each(Object.keys(checks))("M-904: %s agree, or differ in an explained way", (file) => {
    const entries = fixture(version, file).values;
    const unexplained: string[] = [];
    let compared = 0;
    for (const entry of entries) {
      const pair = checks[file]?.(entry, version);
      if (pair === undefined) {
        if (!elsewhere.has(entry.type) && !messages.has(entry.type)) unexplained.push(`${entry.id}: no such type`);
        continue;
      }
      compared++;
      if (same(pair.ours, pair.theirs)) continue;
      const reason = differences.find((difference) => difference.explains({ version, file, entry, ...pair }));
      if (reason === undefined)
        unexplained.push(`${entry.id}\n    ours   ${text(pair.ours)}\n    theirs ${text(pair.theirs)}`);
      else used.set(reason.id, (used.get(reason.id) ?? 0) + 1);
    }
    report({ version, values: compared });
    expect(unexplained.length, `\n${unexplained.slice(0, Number(process.env["PARITY_SHOW"] ?? 20)).join("\n")}\n`).toBe(
      0,
    );
  });
});

describe.each(versions)("functions of tinker %s", (version) => {
  const derived = fixture<{
    paths: { input: string; output?: object; error?: object }[];
    durations: { input: [number, number, number]; output: string }[];
    modelInputs: { id: string; input: Record<string, unknown>; length: Result; to_ints: Result }[];
    queries: { id: string; input: Record<string, unknown>; output?: string }[];
  }>(version, "derived");
  interface Result {
    output?: unknown;
    error?: unknown;
  }

  it("M-410: tinker:// paths parse alike", () => {
    for (const { input, output } of derived.paths) {
      if (version === "0.25.0" && input.includes("/external_weights/")) continue; // a kind that later releases brought
      const ours = attempt(() => wire.ParsedCheckpointTinkerPath.fromTinkerPath(input));
      if (output === undefined || /\/\/\/|\/$|:\/\/\//.test(input)) expect(ours, input).toHaveProperty("refused");
      else {
        const { tinkerPath, trainingRunId, checkpointType, checkpointId } =
          ours.value as wire.ParsedCheckpointTinkerPath;
        expect({
          tinker_path: tinkerPath,
          training_run_id: trainingRunId,
          checkpoint_type: checkpointType,
          checkpoint_id: checkpointId,
        }).toEqual(output);
      }
    }
  });

  it("M-409: durations are written alike", () => {
    for (const {
      input: [days, seconds, micros],
      output,
    } of derived.durations) {
      expect(wire.writeDuration(days * 86_400_000 + seconds * 1000 + micros / 1000)).toBe(output);
    }
  });

  it("M-307: lengths and token lists of inputs agree", () => {
    for (const { id, input, length, to_ints } of derived.modelInputs) {
      if (id === "dmel ten-byte varint") continue; // a dimension of 2^64 - 1: refused here
      const made = attempt(() => build({ $type: "ModelInput", ...input }) as wire.ModelInput);
      const compare = (ours: Outcome, theirs: Result) => {
        if ("error" in theirs) expect(ours, id).toHaveProperty("refused");
        else expect(neutral(ours.value), id).toEqual(neutral(theirs.output));
      };
      compare(
        attempt(() => (made.value as wire.ModelInput).length),
        length,
      );
      compare(
        attempt(() => (made.value as wire.ModelInput).toInts()),
        to_ints,
      );
    }
  });

  it("flat queries are written alike", () => {
    const flat = derived.queries.filter(
      ({ id, input, output }) =>
        id !== "float" && // 1.0 and 1 are one number here
        output !== undefined &&
        Object.values(input).every((value) => typeof value !== "object" || value === null),
    );
    expect(flat.length).toBeGreaterThan(5);
    // the fixtures keep keys sorted: compare the parts
    const parts = (query: string | undefined) => query?.split("&").sort();
    for (const { id, input, output } of flat) expect(parts(wire.encodeQuery(input)), id).toEqual(parts(output));
  });
});

describe("the explained list", () => {
  it("M-904: is short, and each of its entries still happens", () => {
    expect(differences.length).toBeLessThanOrEqual(15);
    for (const { id } of differences) expect(used.get(id), `nothing shows "${id}" any more`).toBeGreaterThan(0);
  });

  it("M-904: is the one that the parity page shows", () => {
    const page = readFileSync(new URL("../../../docs/PARITY.md", import.meta.url), "utf8");
    for (const { title } of differences) expect(page).toContain(title);
  });
});

afterAll(() => {
  if (process.env["PARITY_SHOW"]) console.log(Object.fromEntries(used));
});

function same(ours: Outcome, theirs: Outcome): boolean {
  if ("refused" in ours || "refused" in theirs) return "refused" in ours && "refused" in theirs;
  return deepEqual(ours.value, theirs.value);
}

function deepEqual(a: unknown, b: unknown): boolean {
  try {
    expect(a).toEqual(b);
    return true;
  } catch {
    return false;
  }
}

const text = (outcome: Outcome) =>
  ("refused" in outcome ? `refused (${outcome.refused})` : JSON.stringify(outcome.value)).slice(0, 400);
