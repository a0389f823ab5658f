/**
 * Our schemas against the official SDK's, field by field (name, type, required, default), and every public name of
 * `tinker.types` against ours.
 */
import { readdirSync, readFileSync } from "node:fs";
import type * as wire from "tinklet/wire";
import * as wireValues from "tinklet/wire";
import { describe, expect, it } from "vitest";
import { type AnyMessage, fixture, messages, newerFields, type Version, versions } from "./fixtures.ts";
import { report } from "./report.ts";

interface TheirField {
  readonly name: string;
  readonly type: string;
  readonly required: boolean;
  readonly default?: unknown;
}
interface TheirType {
  readonly name: string;
  readonly kind: "model" | "dataclass" | "literal" | "enum" | "alias";
  readonly public: boolean;
  readonly fields?: readonly TheirField[];
  readonly values?: readonly unknown[];
}

/** Our type in the recorder's words. */
function words(shape: wire.Shape): string {
  switch (shape.type) {
    case "integer":
      return "int";
    case "number":
      return "float";
    case "boolean":
      return "bool";
    case "json":
      return "any";
    case "literal":
      return JSON.stringify(shape.value);
    case "enum":
      return shape.values.map((value) => JSON.stringify(value)).join(" | ");
    case "array":
      return `list<${words(shape.items)}>`;
    case "map":
      return `map<string, ${words(shape.values)}>`;
    case "message":
      return shape.name;
    case "union":
      return shape.options.map(words).join(" | ");
    case "nullable":
      return `${words(shape.of)} | null`;
    default:
      return shape.type;
  }
}

/** Optimizers are a family: a `type` with fields of its own, which passes through here. */
const family = /AdamOptimizerConfig \| OptimizerConfigBase/;
const unordered = (type: string) =>
  type
    .replaceAll("pydantic:TensorData", "TensorData")
    .replace(family, "map<string, any>")
    .split(" | ")
    .sort()
    .join(" | ");

/** Where a schema differs for a reason that docs/PARITY.md gives; by `Type.field`. */
const explained: Readonly<Record<string, string>> = {
  "CreateSessionRequest.user_metadata": "Answers are read more leniently",
  "TrainingRunsResponse.cursor": "Answers are read more leniently",
  "RequestFailedResponse.category": "Answers are read more leniently",
  "SessionStartEvent.event": "The `event` field of a telemetry event is derived from its type",
  "SessionEndEvent.event": "The `event` field of a telemetry event is derived from its type",
  "UnhandledExceptionEvent.event": "The `event` field of a telemetry event is derived from its type",
  "GenericEvent.event": "The `event` field of a telemetry event is derived from its type",
  "TelemetrySendRequest.events": "The `event` field of a telemetry event is derived from its type",
  "ForwardBackwardInput.loss_fn_config": "What newer releases added is read, and sent only when given",
  "OptimStepRequest.adam_params": "What newer releases added is read, and sent only when given",
  "OptimStepRequest.optim_params": "What newer releases added is read, and sent only when given",
  "OptimStepRequest.optimizer_params": "What newer releases added is read, and sent only when given",
  "SessionSearchCursor.last_created_at": "Moments are sent in UTC with milliseconds",
  "ClientConfigResponse.tinklet_extensions": "Answers are read more leniently",
  "Checkpoint.run_name": "Answers are read more leniently",
  "Checkpoint.reference": "Answers are read more leniently",
  "TrainingRun.name": "Answers are read more leniently",
  "SampleRequest.tinklet_constraint": "A sample may have a format",
  "WhoamiResponse.org_urn": "What newer releases added is read, and sent only when given",
};

function compare(type: TheirType, message: AnyMessage, version: Version): string[] {
  const newer = newerFields.get(type.name) ?? new Set<string>();
  const compared = ({ name }: { readonly name: string }) => version !== "0.25.0" || !newer.has(name);
  const theirs = new Map((type.fields ?? []).map((field) => [field.name, field]));
  const ours = new Map(message.fields.filter(compared).map((field) => [field.name, field]));
  const problems: string[] = [];
  for (const name of new Set([...theirs.keys(), ...ours.keys()])) {
    if (`${type.name}.${name}` in explained) continue;
    const [mine, official] = [ours.get(name), theirs.get(name)];
    if (mine === undefined || official === undefined) {
      if (mine === undefined || `${type.name}.${name}` !== "TryAgainResponse.queue_state_reason") {
        problems.push(`${type.name}.${name}: only in ${mine === undefined ? "theirs" : "ours"}`);
      }
      continue;
    }
    const nullable = / \| null$/.test(official.type);
    const theirType = unordered(official.type.replace(/ \| null$/, ""));
    const myType = unordered(words(mine.shape));
    const open = mine.shape.type === "enum" && mine.shape.open;
    // an open word list has the newest release's words; an older one's are among them
    const leading =
      open && version === "0.25.0" && theirType.split(" | ").every((word) => myType.split(" | ").includes(word));
    if (theirType !== myType && !leading) problems.push(`${type.name}.${name}: ${theirType} there, ${myType} here`);
    const presence = official.required ? "required" : nullable && official.default === null ? "optional" : "default";
    // what newer releases always send is sent here only where it carries something
    if (newer.has(name) && presence === "default" && mine.presence === "optional") continue;
    if (presence !== mine.presence) problems.push(`${type.name}.${name}: ${presence} there, ${mine.presence} here`);
    if (presence === "default" && JSON.stringify(official.default) !== JSON.stringify(mine.default)) {
      problems.push(
        `${type.name}.${name}: default ${JSON.stringify(official.default)} there, ${JSON.stringify(mine.default)} here`,
      );
    }
  }
  return problems;
}

/** Types whose fields are a class's own properties here; their behaviour is compared value by value. */
const classes = new Set([
  "Datum",
  "TensorData",
  "SampleResponse",
  "SampledSequence",
  "ForwardBackwardOutput",
  "ParsedCheckpointTinkerPath",
  "TopkPromptLogprobs",
  "TopkLogprobs",
  "PromptAltTokens",
  "PromptProvenanceSpan",
  "SampledProvenanceSpan",
  "OptimParamsBase",
  "OptimizerConfigBase",
]);

/** Every name that the sources of the wire export. */
const wireSources = new URL("../../../packages/wire/src/", import.meta.url);
const exported = new Set(
  readdirSync(wireSources, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && !file.endsWith(".test.ts"))
    .flatMap((file) =>
      Array.from(
        readFileSync(new URL(file.replaceAll("\\", "/"), wireSources), "utf8").matchAll(
          /^export (?:abstract )?(?:interface|type|const|class|function) (\w+)/gm,
        ),
        (match) => match[1] as string,
      ),
    ),
);
/** The same thing under our name. */
const renamed: Readonly<Record<string, string>> = {
  TelemetryBatch: "TelemetryBatch",
  TopkPromptLogprobs: "TopkLogprobs",
  FutureRetrieveResponse: "JsonOutcome",
};

describe.each(versions)("schemas of tinker %s", (version: Version) => {
  const { types } = fixture<{ types: TheirType[] }>(version, "schemas");
  /** Types that were compared: fields, words, a class's values (`values.test.ts`), or, for an alias, that its name is here. */
  const seen = new Set<string>();

  it("M-904: every field of every type agrees, or differs in an explained way", () => {
    const problems: string[] = [];
    let compared = 0;
    for (const type of types) {
      const message = messages.get(type.name);
      if (type.fields === undefined || classes.has(type.name)) continue;
      if (message === undefined) {
        if (version === "0.25.0" && !type.name.startsWith("pydantic:"))
          problems.push(`${type.name}: no such message here`);
        continue;
      }
      compared++;
      seen.add(type.name);
      problems.push(...compare(type, message, version));
    }
    expect(compared).toBeGreaterThan(60);
    expect(problems, problems.join("\n")).toEqual([]);
  });

  it("M-904: words and values of enums agree", () => {
    const values: Record<string, readonly string[]> = {
      LossFnType: wireValues.lossFnTypes,
      StopReason: ["length", "stop"],
      TensorDtype: ["int64", "float32"],
      CheckpointType: ["training", "sampler", "external"],
      EventType: ["SESSION_START", "SESSION_END", "UNHANDLED_EXCEPTION", "GENERIC_EVENT"],
      Severity: ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"],
      RequestErrorCategory: ["unknown", "server", "user"],
      QueueState: ["active", "paused_rate_limit", "paused_capacity", "unknown"],
      ...(version === "0.25.0" ? {} : { ClientSessionFinishReasonType: ["success", "errored", "interrupted"] }),
    };
    for (const [name, ours] of Object.entries(values)) {
      const theirs = types.find((type) => type.name === name)?.values;
      expect(theirs, name).toBeDefined();
      if (version === "0.25.0") expect(ours, name).toEqual(expect.arrayContaining(theirs as string[]));
      else expect([...ours].sort(), name).toEqual([...(theirs as string[])].sort());
    }
    for (const name of Object.keys(values)) seen.add(name);
  });

  it("M-414: every public name of tinker.types has a twin here", () => {
    const wanted = types.filter((type) => type.public && !type.name.startsWith("pydantic:")).map((type) => type.name);
    const missing = wanted.filter((name) => !exported.has(renamed[name] ?? name));
    expect(missing).toEqual([]);
    for (const type of types) if (classes.has(type.name) || type.kind === "alias") seen.add(type.name);
    if (version !== "0.25.0") {
      expect(types.find(({ name }) => name === "CustomLossInputRank")?.values).toEqual([0, 1, 2]);
      seen.add("CustomLossInputRank");
    }
    report({ version, types: seen.size });
    expect(wanted.filter((name) => !seen.has(name))).toEqual([]);
    // what is left is not public: the pools of connections, and forms of classes that are compared by their values
    const left = types.filter(({ name }) => !seen.has(name)).map(({ name }) => name);
    expect(left.filter((name) => name !== "ClientConnectionPoolType" && !name.startsWith("pydantic:"))).toEqual([]);
  });
});
