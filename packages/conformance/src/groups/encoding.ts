/** JSON, protobuf and zstd: every encoding of a request gives the same result. */

import { Datum, ModelInput, TensorData } from "@tinklet/sdk";
import {
  compressZstd,
  decodeForwardBackwardOutput,
  decodeSampleResponse,
  forwardBackwardOutputJson,
  protobufContentType,
  stringifyJson,
} from "@tinklet/wire";
import { group } from "../case.ts";
import { allClose, equal, fail, holds } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, logprobsOf, otherLesson, passBytes, tokensOf } from "../data.ts";
import { described } from "../http.ts";

const isProto = (headers: Headers) => (headers.get("content-type") ?? "").includes(protobufContentType);

/** The output of one forward pass sent as protobuf. */
async function forward(context: Context, modelId: string, seqId: number, data: readonly Datum[], zstd = false) {
  const bytes = passBytes(modelId, seqId, data, { forwardOnly: true });
  const body = zstd ? await compressZstd(bytes) : bytes;
  const headers = zstd ? { "content-encoding": "zstd" } : {};
  const { bytes: result } = await context.http.call("forward_backward", body, { headers });
  return decodeForwardBackwardOutput(result);
}

/** A datum with k candidate targets per position: [n, k]. */
function candidates(k: number, sparse: boolean): Datum {
  const targets = otherLesson.slice(1);
  const rows = targets.map((token, i) =>
    Array.from({ length: k }, (_, j) => (j === 0 ? token : tokensOf(i * k + j, 1)[0]!)),
  );
  const weights = targets.map((_, i) => Array.from({ length: k }, (_unused, j) => (i % 3 === 0 ? 0 : 1 / (j + 1))));
  const shape = [targets.length, k];
  const dense = TensorData.from(weights.flat(), { dtype: "float32", shape });
  const stored = weights.map((row) => row.filter((value) => value !== 0).length);
  const crow = [0];
  for (const count of stored) crow.push(crow.at(-1)! + count);
  const csr = () =>
    TensorData.fromSparse({
      values: weights.flat().filter((value) => value !== 0),
      dtype: "float32",
      crowIndices: crow,
      colIndices: weights.flatMap((row) => row.flatMap((value, j) => (value === 0 ? [] : [j]))),
      shape,
    });
  return new Datum({
    modelInput: ModelInput.fromInts(otherLesson.slice(0, -1)),
    lossFnInputs: {
      target_tokens: TensorData.from(rows.flat(), { dtype: "int64", shape }),
      weights: sparse ? csr() : dense,
    },
  });
}

const sampleBody = (samplingSessionId: string, seqId: number | bigint, more: object = {}) => ({
  sampling_session_id: samplingSessionId,
  seq_id: seqId,
  num_samples: 1,
  prompt: { chunks: [{ type: "encoded_text", tokens: tokensOf(3, 6) }] },
  sampling_params: { max_tokens: 4, seed: 5 },
  prompt_logprobs: false,
  topk_prompt_logprobs: 0,
  type: "sample",
  ...more,
});

export const encoding = group("encoding", "JSON, protobuf and zstd requests give the same results", [
  [
    "protobuf-request",
    "SDKs since 0.25 send training data only as protobuf",
    "accepts ForwardBackwardRequest as application/x-protobuf",
    async (context) => {
      const output = await forward(context, await context.rawModel(), 1, [datumOf(lesson)]);
      equal(output.lossFnOutputs.length, 1, "number of outputs");
    },
  ],
  [
    "zstd-request",
    "clients may compress batches if the server's flag allows it",
    "accepts the same body as one zstd frame with Content-Encoding: zstd",
    async (context) => {
      const modelId = await context.rawModel();
      const plain = await forward(context, modelId, 1, [datumOf(lesson)]);
      const packed = await forward(context, modelId, 2, [datumOf(lesson)], true);
      allClose(logprobsOf(packed), logprobsOf(plain), 1e-4, "log-probs of the compressed request");
    },
  ],
  [
    "protobuf-pass-result",
    "the client rejects a JSON result of a pass",
    "with Accept: application/x-protobuf the result is a protobuf ForwardBackwardOutput",
    async (context) => {
      const modelId = await context.rawModel();
      const answer = await context.http.call("forward_backward", passBytes(modelId, 1));
      holds(isProto(answer.headers), "content type of a pass's result", protobufContentType, described(answer));
      equal(decodeForwardBackwardOutput(answer.bytes).lossFnOutputs.length, 1, "number of outputs");
    },
  ],
  [
    "protobuf-sample-result",
    "the client rejects a JSON result of a sample",
    "with Accept: application/x-protobuf the result is a protobuf SampleResponse",
    async (context) => {
      const answer = await context.http.call("asample", sampleBody(await context.rawSampler(), 0));
      holds(isProto(answer.headers), "content type of a sample's result", protobufContentType, described(answer));
      equal(decodeSampleResponse(answer.bytes).sequences.length, 1, "number of sequences");
    },
  ],
  [
    "json-results",
    "clients read results without tensors as JSON",
    "optim_step, save_weights and similar requests return JSON",
    async (context) => {
      const modelId = await context.rawModel();
      const answer = await context.http.call("optim_step", {
        model_id: modelId,
        seq_id: 1,
        adam_params: {},
        type: "optim_step",
      });
      holds(answer.json !== undefined, "the result of optim_step", "JSON", described(answer));
    },
  ],
  [
    "failures-are-json",
    "the client reads errors as JSON even if it accepts protobuf",
    "a failed future returns JSON regardless of the Accept header",
    async (context) => {
      const modelId = await context.rawModel();
      const requestId = await context.http.submit(
        "forward_backward",
        passBytes(modelId, 1, [datumOf(lesson)], { lossFn: "no_such_loss" }),
      );
      const outcome = await context.http.outcome(requestId);
      holds(outcome.kind !== "done", "an unknown loss", "a failed future", described(outcome.answer));
      holds(outcome.answer.json !== undefined, "the failure", "JSON", described(outcome.answer));
    },
  ],
  [
    "json-request",
    "SDKs before 0.25 and many scripts send passes as JSON",
    "accepts JSON, which was the only encoding before 0.25",
    async (context) => {
      const modelId = await context.rawModel();
      const plain = logprobsOf(await forward(context, modelId, 1, [datumOf(lesson)]));
      const tensor = (data: readonly number[], dtype: string) => ({ data, dtype, shape: [data.length] });
      const requestId = await context.http.submit("forward_backward", {
        model_id: modelId,
        seq_id: 2,
        forward_backward_input: {
          loss_fn: "cross_entropy",
          data: [
            {
              model_input: { chunks: [{ type: "encoded_text", tokens: lesson.slice(0, -1) }] },
              loss_fn_inputs: {
                target_tokens: tensor(lesson.slice(1), "int64"),
                weights: tensor(
                  lesson.slice(1).map(() => 1),
                  "float32",
                ),
              },
            },
          ],
        },
        type: "forward_backward",
      });
      const answer = await context.http.result(requestId, "ForwardBackward");
      const output = isProto(answer.headers)
        ? decodeForwardBackwardOutput(answer.bytes)
        : forwardBackwardOutputJson.decode(answer.json);
      allClose(logprobsOf(output), plain, 1e-4, "log-probs of the JSON request");
    },
  ],
  [
    "outputs-in-order",
    "clients match outputs to data by position",
    "loss_fn_outputs has one map per datum, in order, each as long as its targets",
    async (context) => {
      const trainer = await context.trainer();
      const data = [lesson, otherLesson, tokensOf(5, 4)].map((tokens) => datumOf(tokens));
      const together = await trainer.forward(data, "cross_entropy");
      equal(together.lossFnOutputs.length, 3, "number of outputs");
      for (const [i, datum] of data.entries()) {
        const alone = logprobsOf(await trainer.forward([datum], "cross_entropy"));
        allClose(logprobsOf(together, i), alone, 2e-3, `log-probs of datum ${i}`);
      }
    },
  ],
  [
    "chunks-join",
    "prompts are often composed of several chunks",
    "a model_input of several text chunks is their concatenation",
    async (context) => {
      const trainer = await context.trainer();
      const tokens = lesson.slice(0, -1);
      const parts = new ModelInput(
        [tokens.slice(0, 5), tokens.slice(5, 6), tokens.slice(6)].map((t) => ({
          type: "encoded_text" as const,
          tokens: t,
        })),
      );
      const inputs = { target_tokens: lesson.slice(1), weights: lesson.slice(1).map(() => 1) };
      const split = new Datum({ modelInput: parts, lossFnInputs: inputs });
      const whole = logprobsOf(await trainer.forward([datumOf(lesson)], "cross_entropy"));
      allClose(
        logprobsOf(await trainer.forward([split], "cross_entropy")),
        whole,
        1e-4,
        "log-probs of the input in several chunks",
      );
    },
  ],
  [
    "several-targets",
    "distillation puts several candidate tokens at each position",
    "target_tokens [n, k] with weights [n, k] gives logprobs [n, k]",
    async (context) => {
      const trainer = await context.trainer();
      const k = 3;
      const output = await trainer.forward([candidates(k, false)], "cross_entropy");
      const single = logprobsOf(await trainer.forward([datumOf(otherLesson)], "cross_entropy"));
      const all = logprobsOf(output);
      equal(all.length, k * (otherLesson.length - 1), "number of log-probs");
      allClose(
        all.filter((_, i) => i % k === 0),
        single,
        1e-3,
        "log-probs of the first candidates",
      );
    },
  ],
  [
    "sparse-tensors",
    "the SDK converts two-dimensional weights to sparse tensors",
    "a CSR tensor gives the same result as the dense one",
    async (context) => {
      const trainer = await context.trainer();
      const lossOf = async (sparse: boolean) => {
        const output = await trainer.forward([candidates(3, sparse)], "cross_entropy");
        return output.metrics["loss:sum"] ?? fail("metrics", "loss:sum", output.metrics);
      };
      const [dense, sparse] = [await lossOf(false), await lossOf(true)];
      allClose([sparse], [dense], 1e-3, "loss with sparse weights");
    },
  ],
  [
    "large-sampling-numbers",
    "samplers in other processes use seq_ids from 1e9 to 1e18; as doubles, adjacent values become equal",
    "seq_id of asample is a 64-bit integer",
    async (context) => {
      const sampler = await context.rawSampler();
      const first = 54_784_135_000_000_001n;
      const submit = (seqId: bigint, seed: number) =>
        context.http.submit(
          "asample",
          stringifyJson(sampleBody(sampler, seqId, { sampling_params: { max_tokens: 2, seed } })),
        );
      const [a, b] = [await submit(first, 1), await submit(first + 1n, 2)];
      holds(a !== b, "request ids of two adjacent seq_ids above 2^53", "different ids", [a, b]);
      for (const id of [a, b]) await context.http.result(id, "Sample");
    },
  ],
  [
    "text-survives",
    "user metadata may be in any language",
    "JSON is UTF-8 in requests and responses",
    async (context) => {
      const note = "Grüße 🌱 «día»";
      const { modelId } = await context.trainer({ userMetadata: { note } });
      const run = await context.service.createRestClient().getTrainingRun(modelId);
      equal(run.userMetadata?.["note"], note, "user_metadata.note");
    },
  ],
  [
    "broken-zstd",
    "a truncated upload must not be a 5xx, which clients retry for minutes",
    "a body that does not match its Content-Encoding is a 4xx",
    async (context) => {
      const modelId = await context.rawModel();
      const packed = await compressZstd(passBytes(modelId, 1));
      const headers = { "content-encoding": "zstd" };
      await context.http.refused("half a zstd frame", "forward_backward", packed.slice(0, packed.length >> 1), {
        headers,
      });
    },
  ],
  [
    "broken-protobuf",
    "invalid bytes must be rejected and not guessed",
    "a 4xx, or a future that fails",
    async (context) => {
      const bytes = new Uint8Array(64).fill(0xff);
      await context.http.refused("bytes that are not valid protobuf", "forward_backward", bytes);
    },
  ],
]);
