/**
 * A language model of the AI SDK (specification V3, which AI SDK 6 and 7 both run) over a `SamplingClient`. Rendering, streaming
 * decoding and parsing are those of `@tinklet/models/chat`; here is how a call becomes a sample, and the sample a result.
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
import { metadataOf, type SamplerRecord } from "./token-record.ts";

/** A sampler that is ready, with what its conversations are made with. */
export interface OpenSampler extends ChatModel {
  readonly sampler: SamplingClient;
  readonly baseModel: string;
}

/** Asks a sampler for all that conversations with it need. */
export async function openSampler(sampler: SamplingClient): Promise<OpenSampler> {
  const [tokenizer, baseModel] = await Promise.all([sampler.getTokenizer(), sampler.getBaseModel()]);
  return { sampler, tokenizer, chat: createChat(tokenizer), baseModel };
}

/** A model and how to open it. `open` is called for each call and is expected to remember. */
export interface LanguageModelSource {
  readonly modelId: string;
  readonly open: () => Promise<OpenSampler>;
}

/** A call under way: its prompt, its sample's settings and the reading of its reply. */
interface Conversation {
  readonly sampler: SamplingClient;
  readonly prompt: readonly number[];
  readonly settings: CallSettings;
  readonly reader: ReplyReader;
  readonly parts: ReplyParts;
  readonly record: SamplerRecord;
  /** Tokens so far of thoughts, and of what is not known yet to be thought or text. */
  readonly spent: { reasoning: number; unknown: number };
}

export function createLanguageModel({ modelId, open }: LanguageModelSource): LanguageModelV3 {
  const begin = async (options: LanguageModelV3CallOptions): Promise<Conversation> => {
    options.abortSignal?.throwIfAborted();
    const messages = chatMessages(options.prompt);
    const model = await untilAborted(open(), options.abortSignal);
    const { chat, tokenizer } = model;
    const canConstrain = model.sampler.extensions.includes("constraint");
    const settings = readCall(options, { chat, tokenizer, canConstrain });
    const { tools, variables, params, constraint, stop } = settings;
    const { rendered, tokenIds: prompt } = promptTokens(model, messages, { tools, variables });
    if (constraint !== undefined && rendered.startsInReasoning) {
      throw new InvalidInputError("responseFormat", "cannot be JSON: this model begins every reply with thinking", {
        hint: "Set providerOptions.tinklet: templateVariables may turn thinking off, and constrain: false gives up the format.",
      });
    }
    const { samplingSessionId } = model.sampler;
    const { temperature = 1, topK = -1, topP = 1 } = params;
    const { baseModel } = model;
    return {
      sampler: model.sampler,
      prompt,
      settings,
      // All of a reply with a format is text: nothing in it is a call or a thought.
      reader:
        constraint === undefined
          ? chat.read(rendered, { stop })
          : createReplyReader({ tokenizer, endTokenIds: chat.endTokenIds, stop }),
      parts: createReplyParts(),
      record: { modelId, baseModel, samplingSessionId, temperature, topK, topP, constrained: constraint !== undefined },
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

/** What a token adds to the reply. */
function read({ reader, parts, spent }: Conversation, id: number): LanguageModelV3StreamPart[] {
  const events = reader.push(id);
  spent.unknown++;
  if (events.length > 0) {
    if (events[0]!.type === "reasoning") spent.reasoning += spent.unknown;
    spent.unknown = 0;
  }
  return parts.push(events);
}

/** The parts of a reply while it is drawn. Cancelling the stream ends the sample. */
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

/** What is known when the last token is drawn. */
function outcome(call: Conversation, response: SampleResponse) {
  const { tokens, logprobs, stopReason } = response.sequences[0]!;
  const record = {
    promptTokenIds: [...call.prompt],
    tokenIds: [...tokens],
    ...omitUndefined({ logprobs: logprobs && [...logprobs] }),
    stopReason,
    sampler: call.record,
  };
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
