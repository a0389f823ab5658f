/**
 * A language model of the AI SDK (specification V3, which AI SDK 6 and 7 both accept) over a `SamplingClient`. Converts a call to a
 * sample request and the sample to a result. Rendering, streaming decoding and parsing are in `@tinklet/models/chat`.
 */
import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3FinishReason,
  LanguageModelV3StreamPart,
  LanguageModelV3Usage,
} from "@ai-sdk/provider";
import { createChat, createReplyReader, type ReplyReader } from "@tinklet/models/chat";
import { InvalidInputError, ModelInput, type SampleResponse, type SamplingClient } from "@tinklet/sdk";
import { untilAborted } from "@tinklet/wire/abort";
import { omitUndefined } from "@tinklet/wire/options";
import { type CallSettings, readCall } from "./call-settings.ts";
import { chatMessages } from "./chat-messages.ts";
import { type ChatModel, promptTokens } from "./prompt-tokens.ts";
import { contentOf, createReplyParts, type ReplyParts } from "./reply-parts.ts";
import { type RecordTokens, spanTokens } from "./span-tokens.ts";
import { metadataOf, type SamplerRecord } from "./token-record.ts";

/** A sampler with its tokenizer and chat template loaded. */
export interface OpenSampler extends ChatModel {
  readonly sampler: SamplingClient;
  readonly baseModel: string;
}

/** Loads the tokenizer and the chat template of a sampler's base model. */
export async function openSampler(sampler: SamplingClient): Promise<OpenSampler> {
  const [tokenizer, baseModel] = await Promise.all([sampler.getTokenizer(), sampler.getBaseModel()]);
  return { sampler, tokenizer, chat: createChat(tokenizer), baseModel };
}

/** A model and how to open it. `open` runs on each call, so it should cache its result. */
export interface LanguageModelSource {
  readonly modelId: string;
  readonly open: () => Promise<OpenSampler>;
}

/** A call in progress: its prompt, its sampling settings and the parser of its reply. */
interface Conversation {
  readonly sampler: SamplingClient;
  readonly prompt: readonly number[];
  readonly settings: CallSettings;
  readonly reader: ReplyReader;
  readonly parts: ReplyParts;
  readonly record: SamplerRecord;
  readonly recordTokens: RecordTokens;
  /** Numbers of tokens so far: of reasoning, and of those that the parser has not classified yet. */
  readonly spent: { reasoning: number; unknown: number };
}

export function createLanguageModel({ modelId, open }: LanguageModelSource): LanguageModelV3 {
  const begin = async (options: LanguageModelV3CallOptions): Promise<Conversation> => {
    options.abortSignal?.throwIfAborted();
    const recordTokens = await spanTokens();
    const messages = chatMessages(options.prompt);
    const model = await untilAborted(open(), options.abortSignal);
    const { chat, tokenizer } = model;
    const canConstrain = model.sampler.extensions.includes("constraint");
    const settings = readCall(options, { chat, tokenizer, canConstrain });
    const { tools, variables, params, constraint, stop } = settings;
    const { rendered, tokenIds: prompt } = promptTokens(model, messages, { tools, variables });
    if (constraint !== undefined && rendered.startsInReasoning) {
      throw new InvalidInputError("responseFormat", "cannot be JSON: this model starts every reply with reasoning", {
        hint: "Set providerOptions.tinklet.templateVariables to turn reasoning off (enable_thinking: false in many templates), or constrain: false to sample without the format.",
      });
    }
    const { samplingSessionId } = model.sampler;
    const { temperature = 1, topK = -1, topP = 1 } = params;
    const { baseModel } = model;
    return {
      sampler: model.sampler,
      prompt,
      settings,
      // A constrained reply is text only: it contains no tool calls and no reasoning.
      reader:
        constraint === undefined
          ? chat.read(rendered, { stop })
          : createReplyReader({ tokenizer, endTokenIds: chat.endTokenIds, stop }),
      parts: createReplyParts(),
      record: { modelId, baseModel, samplingSessionId, temperature, topK, topP, constrained: constraint !== undefined },
      recordTokens,
      spent: { reasoning: 0, unknown: 0 },
    };
  };
  return {
    specificationVersion: "v3",
    provider: "tinklet",
    modelId,
    supportedUrls: {},

    async doGenerate(options) {
      const call = await begin(options);
      const { sampler, prompt, settings, reader, parts } = call;
      const response = await sampler.sample(ModelInput.fromInts(prompt), {
        samplingParams: settings.params,
        ...omitUndefined({ constraint: settings.constraint, signal: options.abortSignal }),
      });
      const { tokens } = response.sequences[0]!;
      const made = [...tokens.map((id) => read(call, id)), parts.push(reader.end()), parts.end(tokens)].flat();
      const content = contentOf(made);
      return { content, warnings: settings.warnings, response: { modelId }, ...outcome(call, response) };
    },

    async doStream(options) {
      const call = await begin(options);
      return { stream: streamOf(call, modelId, options.abortSignal) };
    },
  };
}

/** Passes one sampled token to the parser and returns the stream parts that it completes. */
function read({ reader, parts, spent }: Conversation, id: number): LanguageModelV3StreamPart[] {
  const events = reader.push(id);
  spent.unknown++;
  if (events.length > 0) {
    if (events[0]!.type === "reasoning") spent.reasoning += spent.unknown;
    spent.unknown = 0;
  }
  return parts.push(events);
}

/** Streams a reply as it is sampled. Cancelling the stream cancels the sample. */
function streamOf(
  call: Conversation,
  modelId: string,
  signal: AbortSignal | undefined,
): ReadableStream<LanguageModelV3StreamPart> {
  const { sampler, prompt, settings, reader, parts } = call;
  const sample = sampler.stream(ModelInput.fromInts(prompt), {
    samplingParams: settings.params,
    ...omitUndefined({ constraint: settings.constraint, signal }),
  });
  const tokens = sample[Symbol.asyncIterator]();
  return new ReadableStream<LanguageModelV3StreamPart>({
    start(controller) {
      controller.enqueue({ type: "stream-start", warnings: settings.warnings });
      controller.enqueue({ type: "response-metadata", modelId });
    },
    async pull(controller) {
      try {
        for (;;) {
          const { value, done } = await tokens.next();
          if (done) {
            const response = value;
            const made = [...parts.push(reader.end()), ...parts.end(response.sequences[0]!.tokens)];
            for (const part of made) controller.enqueue(part);
            controller.enqueue({ type: "finish", ...outcome(call, response) });
            controller.close();
            return;
          }
          const made = read(call, value.token);
          for (const part of made) controller.enqueue(part);
          if (made.length > 0) return;
        }
      } catch (error) {
        if (signal?.aborted) controller.error(signal.reason);
        else {
          controller.enqueue({ type: "error", error });
          const usage = usageOf(call, undefined);
          controller.enqueue({ type: "finish", usage, finishReason: { unified: "error", raw: undefined } });
          controller.close();
        }
      }
    },
    cancel: (reason) => sample.cancel(reason),
  });
}

/** Finish reason, usage and metadata of a completed sample. */
function outcome(call: Conversation, response: SampleResponse) {
  const { tokens, logprobs, stopReason } = response.sequences[0]!;
  const record = {
    promptTokenIds: [...call.prompt],
    tokenIds: [...tokens],
    ...omitUndefined({ logprobs: logprobs && [...logprobs] }),
    stopReason,
    sampler: call.record,
  };
  call.recordTokens(record);
  return {
    finishReason: finishReason(call, stopReason),
    usage: usageOf(call, response),
    providerMetadata: metadataOf(record),
  };
}

function finishReason({ reader, parts }: Conversation, raw: string): LanguageModelV3FinishReason {
  const isStop = reader.ended !== undefined || raw === "stop";
  if (!isStop) return { unified: raw === "length" ? "length" : "other", raw };
  return { unified: parts.hasToolCalls ? "tool-calls" : "stop", raw };
}

function usageOf({ prompt, spent }: Conversation, response: SampleResponse | undefined): LanguageModelV3Usage {
  const total = response?.sequences[0]?.tokens.length;
  const cacheRead = response?.promptCacheHitTokens;
  const { reasoning } = spent;
  const noCache = cacheRead === undefined ? undefined : prompt.length - cacheRead;
  return {
    inputTokens: { total: prompt.length, noCache, cacheRead, cacheWrite: undefined },
    outputTokens: { total, text: total === undefined ? undefined : total - reasoning, reasoning },
  };
}
