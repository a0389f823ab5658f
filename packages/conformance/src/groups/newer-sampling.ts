/** Sampling features of releases after 0.25. A server of 0.25 may omit them; if a server returns a field, it must be correct. */
import { decodeSampleResponse, protobufContentType, type SampleResponse } from "@tinklet/wire";
import { group } from "../case.ts";
import { allClose, close, equal, fail, holds, notOffered, text } from "../checks.ts";
import type { Context } from "../context.ts";
import { score, tokensOf } from "../data.ts";
import { described } from "../http.ts";
import { offered } from "../newer.ts";

const start = tokensOf(21, 8);

const sampleBody = (sampler: string, seq: number, fields: object, params: object = {}) => ({
  num_samples: 1,
  prompt: { chunks: [{ type: "encoded_text", tokens: start }] },
  sampling_params: { max_tokens: 4, seed: 7, temperature: 1, ...params },
  sampling_session_id: sampler,
  seq_id: seq,
  type: "sample",
  ...fields,
});

/** One sample with fields that 0.25 does not support. */
async function sampled(context: Context, fields: object, params: object = {}): Promise<SampleResponse> {
  const label = Object.keys(fields).join(", ") || "the sample";
  const answer = offered(
    await context.http.post("asample", sampleBody(await context.rawSampler(), 0, fields, params)),
    label,
  );
  holds(answer.status === 200, label, "a 2xx", described(answer));
  const outcome = await context.http.outcome(text(answer.json?.request_id, "request_id"), { requestType: "Sample" });
  if (outcome.kind !== "done") notOffered(`${label}: ${described(outcome.answer)}`);
  const type = outcome.answer.headers.get("content-type") ?? "";
  if (!type.includes(protobufContentType)) notOffered(`${label}: samples are returned as ${type}`);
  return decodeSampleResponse(outcome.answer.bytes);
}

const present = <T>(value: T | undefined, label: string): T =>
  value ?? notOffered(`${label}: missing from the response`);

/** The model's log-probs of the prompt's tokens after the first, from a forward pass. */
const promptLogprobs = async (context: Context): Promise<number[]> => score(await context.trainer(), start);

/** Allows for different rounding in sampler and trainer. */
const tolerance = 0.02;

const target = (data: readonly number[], shape: readonly number[], more: object = {}) => ({
  target_prompt_logprobs: { data, dtype: "int64", shape, ...more },
});

export const newerSampling = group("newer-sampling", "samples have the fields that newer clients request", [
  [
    "sequence-ids",
    "the newest client requires them for every sample",
    "asample returns sample_sequence_ids: one unique string per sample",
    async (context) => {
      const body = sampleBody(await context.rawSampler(), 0, { num_samples: 3 });
      const { json } = await context.http.ok("POST", "asample", body);
      const ids = json?.sample_sequence_ids;
      if (ids === undefined) notOffered("asample: the response has no sample_sequence_ids");
      equal(new Set(ids as string[]).size, 3, "distinct sample_sequence_ids");
      for (const id of ids as unknown[]) text(id, "sample_sequence_ids");
    },
    "0.26",
  ],
  [
    "topk-samples",
    "distillation needs the distribution from which a sample was drawn",
    "topk_sample_logprobs k returns the k most likely tokens of each sampled position, most likely first",
    async (context) => {
      const { sequences } = await sampled(context, { topk_sample_logprobs: 3 }, { temperature: 0 });
      const { tokens, logprobs, topkSampledLogprobs } = sequences[0]!;
      const table = present(topkSampledLogprobs, "topk_sample_logprobs");
      equal([table.k, table.length], [3, tokens.length], "k and positions");
      tokens.forEach((token, i) => {
        const row = [...table.logprobs.subarray(i * 3, i * 3 + 3)];
        equal(table.tokenIds[i * 3], token, `the most likely token at position ${i} of a greedy sample`);
        equal(
          row,
          [...row].sort((a, b) => b - a),
          `log-probs at position ${i}, most likely first`,
        );
        if (logprobs !== undefined) close(row[0]!, logprobs[i]!, 1e-4, `log-prob of position ${i}`);
      });
    },
    "0.29",
  ],
  [
    "target-log-probs",
    "without it, scoring given tokens takes one pass per token",
    "target_prompt_logprobs returns the log-prob of each id in its row, and 0 for an id of -1",
    async (context) => {
      const rows = start.length - 1;
      const data = start.slice(1).flatMap((token, i) => (i === 2 ? [-1, -1] : [token, (token + 5) % 30]));
      const response = await sampled(context, target(data, [rows, 2]));
      const tensor = present(response.targetPromptLogprobs, "target_prompt_logprobs");
      equal([...(tensor.shape ?? [])], [rows, 2], "shape");
      const values = Array.from(tensor.values, Number);
      equal([values[4], values[5]], [0, 0], "values for ids of -1");
      const expected = await promptLogprobs(context);
      const scored = expected.map((value, i) => (i === 2 ? 0 : value));
      allClose(
        scored.map((_, i) => values[i * 2]!),
        scored,
        tolerance,
        "log-probs of the prompt's tokens",
      );
    },
    "0.30",
  ],
  [
    "target-log-probs-sparse",
    "clients need only a few log-probs of a large vocabulary",
    "a sparse tensor of ids returns a sparse tensor with the same layout",
    async (context) => {
      const rows = start.length - 1;
      const layout = {
        sparse_crow_indices: [...Array.from({ length: rows }, () => 0), 1],
        sparse_col_indices: [3],
      };
      const response = await sampled(context, target([start.at(-1)!], [rows, 5], layout));
      const tensor = present(response.targetPromptLogprobs, "target_prompt_logprobs");
      equal([...(tensor.sparseColIndices ?? [])].map(Number), [3], "columns");
      equal(tensor.values.length, 1, "number of values");
      close(
        Number(tensor.values[0]),
        (await promptLogprobs(context)).at(-1)!,
        tolerance,
        "the log-prob of the last token",
      );
    },
    "0.30",
  ],
  [
    "target-log-probs-shape",
    "scores at wrong positions would be used without an error",
    "a tensor that does not have one row per prompt token after the first is rejected",
    async (context) => {
      const fitting = await sampled(context, target(start.slice(1), [start.length - 1, 1]));
      present(fitting.targetPromptLogprobs, "target_prompt_logprobs");
      const sampler = await context.rawSampler();
      const body = sampleBody(sampler, 0, target(start, [start.length, 1]));
      await context.http.refused("target_prompt_logprobs with one row too many", "asample", body);
    },
    "0.30",
  ],
  [
    "alternative-tokens",
    "without it, alternatives to a prompt's tokens take one sample per position",
    "prompt_alt_tokens_k draws k tokens per prompt position after the first; at temperature 0 the most likely one",
    async (context) => {
      const { promptAltTokens } = await sampled(context, { prompt_alt_tokens_k: 2 }, { temperature: 0 });
      const { tokens, logprobs } = present(promptAltTokens, "prompt_alt_tokens_k");
      const shape = [start.length - 1, 2];
      equal([...(tokens.shape ?? [])], shape, "shape of the tokens");
      equal([...(logprobs.shape ?? [])], shape, "shape of the log-probs");
      const expected = await promptLogprobs(context);
      expected.forEach((value, i) => {
        equal(tokens.values[i * 2], tokens.values[i * 2 + 1], `two greedy draws of position ${i + 1}`);
        holds(
          Number(logprobs.values[i * 2]) >= value - tolerance,
          `log-prob of the most likely token at position ${i + 1}`,
          `at least that of the prompt's token, ${value}`,
          logprobs.values[i * 2],
        );
      });
    },
    "0.31",
  ],
  [
    "last-n",
    "scoring the end of a long conversation should not require scoring its start",
    "prompt_logprobs_last_n scores only the last n tokens; the others are null",
    async (context) => {
      const fields = { prompt_logprobs: true, prompt_logprobs_last_n: 3 };
      const values = (await sampled(context, fields)).promptLogprobs ?? fail("prompt_logprobs", "a list", "nothing");
      const scored = values.map((value) => value !== null);
      if (scored[1] === true) notOffered("prompt_logprobs_last_n: the whole prompt is scored");
      equal(
        scored,
        start.map((_, i) => i >= start.length - 3),
        "scored positions",
      );
      allClose(values.slice(-3).map(Number), (await promptLogprobs(context)).slice(-3), tolerance, "log-probs");
    },
    "0.33",
  ],
  [
    "stability-info",
    "the newest client sends the field with every sample",
    "record_stability_info false changes nothing",
    async (context) => {
      const { sequences } = await sampled(context, { record_stability_info: false });
      equal(sequences.length, 1, "sequences");
    },
    "0.27",
  ],
  [
    "no-stops",
    "without it, users cannot inspect a model beyond its end token",
    "stop [] disables all stops, including the model's EOS token",
    async (context) => {
      const { sequences } = await sampled(context, {}, { stop: [], max_tokens: 40 });
      equal(
        [sequences[0]!.stopReason, sequences[0]!.tokens.length],
        ["length", 40],
        "stop reason and number of tokens",
      );
    },
    "0.36",
  ],
  [
    "all-fields",
    "the newest client always sends them",
    "fields with default values are accepted",
    async (context) => {
      const fields = { topk_prompt_logprobs: 0, topk_sample_logprobs: 0, prompt_alt_tokens_k: 0 };
      equal((await sampled(context, fields)).sequences.length, 1, "sequences");
    },
    "0.31",
  ],
]);
