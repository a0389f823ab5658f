/**
 * Samples the replies to one prompt. Each sequence has a reader, which turns its tokens into text and tool calls for a listener. Complete
 * and streamed responses are made of the same events.
 */
import { ConfigError, MemoryError, type SampleRequest, type TokenEvent, type TokenTable } from "@tinklet/engine";
import type { ReplyEvent, ReplyReader } from "@tinklet/models/chat";
import { omitUndefined } from "@tinklet/wire/options";
import { Refusal } from "../../queue/refusal.ts";
import type { Api } from "../api.ts";
import type { NamedModel } from "./model-names.ts";
import { formatRefusal, type ResponseFormat } from "./response-format.ts";

/** A sampled token of a reply. */
export interface SampledToken {
  readonly id: number;
  readonly logprob: number;
  /** The most likely tokens at its position, if requested. */
  readonly top?: readonly (readonly [id: number, logprob: number])[] | undefined;
}

export interface Listener {
  /** Text and calls that later tokens cannot change, and the tokens since the last call. */
  readonly piece: (index: number, events: readonly ReplyEvent[], tokens: readonly SampledToken[]) => void;
  /** The end of a reply. `stopText`: the stop string that ended it. */
  readonly ending: (index: number, reason: "stop" | "length", stopText: string | undefined) => void;
}

export interface Generation {
  readonly tenant: string;
  readonly model: NamedModel;
  readonly prompt: Int32Array;
  /** Strings at which the engine ends a sequence. */
  readonly stop: readonly string[];
  readonly params: Omit<NonNullable<SampleRequest["params"]>, "stop">;
  readonly n: number;
  readonly promptLogprobs?: boolean;
  /** Number of most likely tokens per sampled token; with `promptLogprobs` also per prompt token. */
  readonly top?: number;
  /** The format of the replies. */
  readonly format?: ResponseFormat | undefined;
  readonly createReader: () => ReplyReader;
  /** Calls whose arguments are decoded again under a grammar. Each reader ends at its first call. */
  readonly strictCalls?: StrictCalls;
  readonly signal: AbortSignal;
}

/** How the arguments of a call are decoded again. */
export interface RedoneCall extends Pick<Generation, "prompt" | "format" | "createReader"> {
  /** Tokens of the reply before the call. */
  readonly textTokens: number;
}

export interface StrictCalls {
  /** How the arguments of a call are decoded again, after the tokens that were sampled. @returns undefined for tools that are not strict */
  readonly of: (tool: string, sampled: readonly number[]) => RedoneCall | undefined;
}

/** Token counts of all replies, and the prompt's log-probs. */
export interface Totals {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** One per prompt token; the first is NaN. */
  readonly promptLogprobs?: Float32Array;
  readonly promptTop?: TokenTable;
}

/** The abort reason when all replies are complete before the engine's own end. */
const allComplete = Symbol("every reply is complete");

/** Codes of schemas that no grammar can be made of. */
const schemaProblems = new Set(["unsupported_schema", "bad_schema", "grammar_too_large"]);

/** @throws {@link Refusal} when the engine refuses the request or dies. */
export async function generate(api: Api, generation: Generation, listener: Listener): Promise<Totals> {
  const { strictCalls } = generation;
  if (strictCalls === undefined) return generateWithin(api, generation, listener);
  const sampled = Array.from({ length: generation.n }, (): number[] => []);
  const again = new Map<number, RedoneCall>();
  const totals = await generateWithin(api, generation, {
    piece: (index, events, tokens) => {
      for (const { id } of tokens) sampled[index]!.push(id);
      const at = events.findIndex(({ type }) => type === "tool_call");
      const event = events[at];
      const redone = event?.type === "tool_call" ? strictCalls.of(event.call.name, sampled[index]!) : undefined;
      if (redone !== undefined) again.set(index, redone);
      if (redone === undefined) listener.piece(index, events, tokens);
      else if (at > 0) listener.piece(index, events.slice(0, at), []);
    },
    ending: (index, reason, stopText) => {
      if (!again.has(index)) listener.ending(index, reason, stopText);
    },
  });
  let { completionTokens } = totals;
  for (const [index, { textTokens, ...redone }] of again) {
    // The text can have more tokens than were sampled, because it is encoded again.
    if (redone.prompt.length > generation.model.served.info.contextLength) {
      listener.ending(index, "length", undefined);
      continue;
    }
    const { maxTokens, seed } = generation.params;
    const params = {
      ...generation.params,
      ...omitUndefined({ maxTokens: maxTokens === undefined ? undefined : Math.max(0, maxTokens - textTokens) }),
      ...omitUndefined({ seed: seed === undefined ? undefined : seed + index }), // as the engine does for n replies
    };
    const rest = { ...generation, ...redone, params, n: 1, stop: [] };
    try {
      const { completionTokens: more } = await generateWithin(api, rest, {
        piece: (_, events, tokens) => listener.piece(index, events, tokens),
        ending: (_, reason, stopText) => listener.ending(index, reason, stopText),
      });
      completionTokens += more;
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== "no_room_for_format") throw error;
      listener.ending(index, "length", undefined); // the text left no tokens for the call
    }
  }
  return { ...totals, completionTokens };
}

/** Samples within a format, or a looser one where the first cannot be compiled. */
async function generateWithin(api: Api, generation: Generation, listener: Listener): Promise<Totals> {
  const { format } = generation;
  if (format?.looser === undefined) return generateOnce(api, generation, listener);
  try {
    return await generateOnce(api, generation, listener);
  } catch (error) {
    // The schema is compiled before the first token, so nothing has been sent.
    if (!(error instanceof Refusal) || !schemaProblems.has(error.code)) throw error;
    return generateOnce(api, { ...generation, format: format.looser() }, listener);
  }
}

async function generateOnce(api: Api, generation: Generation, listener: Listener): Promise<Totals> {
  const { model, prompt, stop, params, n, signal, promptLogprobs = false, top = 0, format } = generation;
  const end = new AbortController();
  const abort = () => end.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  const replies = Array.from({ length: n }, () => ({
    reader: generation.createReader(),
    tokens: [] as SampledToken[],
    over: false,
  }));
  let open = n;
  let completionTokens = 0;
  let cachedTokens = 0;

  const finish = (index: number, stopReason: "stop" | "length" | undefined) => {
    const reply = replies[index]!;
    reply.over = true;
    open--;
    const events = reply.reader.end();
    if (events.length > 0 || reply.tokens.length > 0) listener.piece(index, events, reply.tokens.splice(0));
    const { ended } = reply.reader;
    const reason = ended === undefined ? (stopReason ?? "stop") : "stop";
    listener.ending(index, reason, ended?.by === "stop" ? ended.text : undefined);
  };
  const onToken = ({ index, token, logprob, top, stopReason, promptCacheHitTokens }: TokenEvent) => {
    cachedTokens = promptCacheHitTokens;
    const reply = replies[index]!;
    if (reply.over) return;
    completionTokens++;
    const events = reply.reader.push(token);
    if (reply.reader.ended?.by !== "token") reply.tokens.push({ id: token, logprob, top });
    if (events.length > 0) listener.piece(index, events, reply.tokens.splice(0));
    if (reply.reader.ended !== undefined || stopReason !== undefined) finish(index, stopReason);
    if (open === 0 && stopReason === undefined) end.abort(allComplete);
  };

  try {
    const result = await api.queue.sampleTransient(model.served.name, {
      tenant: generation.tenant,
      request: {
        prompt,
        numSamples: n,
        params: {
          ...params,
          ...(stop.length === 0 ? {} : { stop }),
          ...omitUndefined({ constraint: format?.constraint }),
        },
        promptLogprobs,
        ...(top > 0 ? { topkSampleLogprobs: top, topkPromptLogprobs: promptLogprobs ? top : 0 } : {}),
      },
      signal: end.signal,
      onToken,
      ...omitUndefined({ filesId: model.filesId }),
    });
    for (const [index, { over }] of replies.entries()) if (!over) finish(index, result.sequences[index]?.stopReason);
    cachedTokens = result.promptCacheHitTokens;
    const scores = omitUndefined({ promptLogprobs: result.promptLogprobs, promptTop: result.topkPromptLogprobs });
    return { promptTokens: prompt.length, cachedTokens, completionTokens, ...scores };
  } catch (error) {
    if (error === allComplete) return { promptTokens: prompt.length, cachedTokens, completionTokens };
    if (error instanceof ConfigError || error instanceof MemoryError) {
      throw new Refusal(400, "invalid_request", error.message);
    }
    throw format === undefined ? error : formatRefusal(error, format);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
