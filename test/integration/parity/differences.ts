/**
 * The explained list: every way in which our wire differs from the official SDK's, with the reason. `docs/PARITY.md`
 * shows the same list; `values.test.ts` fails on any difference that is not here, and on an entry that nothing shows.
 */
import type { Entry, Version } from "./fixtures.ts";

/** What one side did with a value. */
export interface Outcome {
  readonly value?: unknown;
  readonly refused?: string;
}

export interface Seen {
  readonly version: Version;
  readonly file: string;
  readonly entry: Entry;
  readonly ours: Outcome;
  readonly theirs: Outcome;
}

export interface Difference {
  readonly id: string;
  /** As it stands in docs/PARITY.md. */
  readonly title: string;
  explains(seen: Seen): boolean;
}

const onlyOursRefuses = ({ ours, theirs }: Seen) => ours.refused !== undefined && theirs.refused === undefined;
const onlyTheirsRefuses = ({ ours, theirs }: Seen) => ours.refused === undefined && theirs.refused !== undefined;
const sent = ({ file }: Seen) => file === "requests" || file === "training";
const telemetry =
  /^(GenericEvent|SessionStartEvent|SessionEndEvent|UnhandledExceptionEvent|TelemetryBatch|TelemetrySendRequest)\//;

export const differences: readonly Difference[] = [
  {
    id: "settings",
    title: "Settings that cannot work are refused before they are sent",
    explains: (seen) =>
      onlyOursRefuses(seen) &&
      /^(beta1|beta2|learningRate|adamParams\.\w+|rank|loraConfig\.\w+|trainMlp): (must be at least|must not be negative|at least one of)/.test(
        seen.ours.refused ?? "",
      ),
  },
  {
    id: "typed-input",
    title: "Input is taken as it is typed",
    explains: (seen) =>
      sent(seen) &&
      onlyOursRefuses(seen) &&
      /must be (a number|an array, not a Set|a finite number|an integer|a Uint8Array|an array of token ids|a token id|one of encoded_text|a string, a list|a JSON value|a non-negative integer)|a lone surrogate|contains floats|needs its dense|at most 64 bits|fits into int64/.test(
        seen.ours.refused ?? "",
      ),
  },
  {
    id: "unknown-parameters",
    title: "Unknown sampling parameters and unknown telemetry fields are refused",
    explains: (seen) =>
      sent(seen) && onlyOursRefuses(seen) && /is not a known field of the service/.test(seen.ours.refused ?? ""),
  },
  {
    id: "more-arrays",
    title: "Unsigned arrays, and nested lists with null or booleans, are accepted",
    explains: (seen) =>
      onlyTheirsRefuses(seen) && /^Datum\/\w+: (u8|u16|u32|u64|u64 \w+|nested null|nested bools)/.test(seen.entry.id),
  },
  {
    id: "dates",
    title: "Moments are sent in UTC with milliseconds",
    explains: (seen) =>
      sent(seen) &&
      seen.ours.refused === undefined &&
      seen.theirs.refused === undefined &&
      sameButDates(seen.ours.value, seen.theirs.value),
  },
  {
    id: "event-words",
    title: "The `event` field of a telemetry event is derived from its type",
    explains: (seen) =>
      telemetry.test(seen.entry.id) &&
      ((onlyOursRefuses(seen) && /event: must be "|events\[\d\]\.\w+: /.test(seen.ours.refused ?? "")) ||
        (onlyTheirsRefuses(seen) &&
          seen.entry.error?.errors?.every(({ loc, type }) => loc.at(-1) === "event" && type === "missing") === true)),
  },
  {
    id: "lenient-answers",
    title: "Answers are read more leniently",
    explains: (seen) =>
      (seen.file === "responses" && onlyTheirsRefuses(seen) && lenientReasons(seen.entry)) ||
      (seen.file === "results" && onlyTheirsRefuses(seen) && /stop reason (2|99|-1)$/.test(seen.entry.id)) ||
      seen.entry.id === "CreateSessionRequest/user_metadata missing",
  },
  {
    id: "strict-numbers",
    title: "Numbers are read as JSON writes them",
    explains: (seen) =>
      seen.file === "responses" &&
      onlyOursRefuses(seen) &&
      /not valid JSON|must be an integer, not (a bigint|"9007199254740993"|"5\.0"|"5_000")|must be a number, not "1_0"/.test(
        seen.ours.refused ?? "",
      ),
  },
  {
    id: "broken-binaries",
    title: "Binary answers that contradict themselves are refused",
    explains: (seen) =>
      seen.file === "results" &&
      onlyOursRefuses(seen) &&
      /cells for|covers \d+ of|num_datums: -1|is outside|not a multiple of the element size/.test(
        seen.ours.refused ?? "",
      ),
  },
  {
    id: "bfloat16",
    title: "bfloat16 tensors of a sample are read as the numbers they are",
    explains: ({ version, entry }) => version === "0.36.0" && entry.id === "SampleResponse/target logprobs bf16",
  },
  {
    id: "newer",
    title: "What newer releases added is read, and sent only when given",
    explains: (seen) =>
      (seen.version !== "0.25.0" && newerOnly(seen)) ||
      /^ForwardBackwardRequest\/config (text|word)|^Datum\/sequence_ratio_mask/.test(seen.entry.id),
  },
];

/** Reasons for which pydantic refuses and ours goes on: a null for a default, a new word, an absent cursor, extra fields. */
function lenientReasons(entry: Entry): boolean {
  if (/models as names|without cursor|cursor missing|cursor=null|info unknown|info extra/.test(entry.id)) return true;
  const errors = entry.error?.errors ?? [];
  return errors.length > 0 && errors.every(({ type }) => /^(literal_error|enum|extra_forbidden|\w+_type)$/.test(type));
}

/** What only a newer release does: new words, kinds and rules beside fields that both know. */
function newerOnly({ entry, ours, theirs }: Seen): boolean {
  if (ours.refused === undefined && theirs.refused !== undefined) {
    return /sequence_ratio_mask|estimated_cost|effective_rate|cost_data_through|org_urn|optimizer_config|target logprobs|alternatives|sampled topk|topk_sample|prompt_alt_tokens_k|user_metadata|display_name/.test(
      `${entry.id} ${JSON.stringify(entry.error)}`,
    );
  }
  if (ours.refused !== undefined) return theirs.refused === undefined && entry.id.includes("sequence_ratio_mask");
  return entry.type === "ForwardBackwardRequest" && JSON.stringify(theirs.value).includes("loss_fn_config_v2");
}

/** Whether two values are equal once every moment is cut to milliseconds and turned to UTC. */
function sameButDates(ours: unknown, theirs: unknown): boolean {
  const cut = (value: unknown): unknown => {
    if (typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value)) {
      const zoned = /(Z|[+-]\d\d:\d\d)$/.test(value) ? value : `${value}Z`;
      return new Date(zoned.replace(/(\.\d{3})\d+/, "$1")).toISOString();
    }
    if (Array.isArray(value)) return value.map(cut);
    if (typeof value === "object" && value !== null) {
      return Object.fromEntries(
        Object.entries(value)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, item]) => [key, cut(item)]),
      );
    }
    return value;
  };
  const hasDate = /"\d{4}-\d\d-\d\dT/.test(JSON.stringify(ours));
  return hasDate && JSON.stringify(cut(ours)) === JSON.stringify(cut(theirs));
}
