/** `POST /completions` of OpenAI's API: continues a prompt of text or tokens, without a chat template. */
import { createReplyReader } from "@tinklet/models/chat";
import { entropy } from "@tinklet/wire/entropy";
import type { Call } from "../../api.ts";
import { answerStreamed, answerWhole, type ChatContext, type ChatSlot, withSlot } from "../answer-chat.ts";
import { errorBody } from "../error-body.ts";
import {
  badField,
  booleanField,
  checkFields,
  type FieldRules,
  listField,
  numberField,
  objectField,
  stopField,
  unsupported,
} from "../fields.ts";
import { type Generation, generate, type SampledToken, type Totals } from "../generate.ts";
import { findModel } from "../model-names.ts";
import { checkContextLength, encodePrompt, promptContext } from "../prompt.ts";
import { readResponseFormat } from "../response-format.ts";
import type { ChatHandler } from "../routes.ts";
import { countField, samplingOf, tokensField } from "../sampling.ts";
import { commonRules, readStream } from "./chat-completions.ts";
import { promptTokens, type ScoredToken, scoredTokens, TextLogprobsJson, textLogprobs } from "./logprobs.ts";
import { dataEvent, doneEvent, keepAlive, usageOf } from "./usage.ts";
import { wholeAnswer } from "./whole-answer.ts";

const rules: FieldRules = {
  ...commonRules,
  supported: [...commonRules.supported, "prompt", "echo"],
  neutral: {
    ...commonRules.neutral,
    best_of: (value) => value === 1,
    suffix: (value) => value === "",
  },
};

/** As in OpenAI's API. */
const defaultMaxTokens = 16;

export function completionsHandler(context: ChatContext): ChatHandler {
  const { api } = context;
  const answer = async (call: Call, slot: ChatSlot): Promise<Response> => {
    const body = objectField(call.wire, "body");
    checkFields(body, rules);
    const model = findModel(api, call.caller.tenant, body["model"]);
    const { stream, includeUsage } = readStream(body);
    const echo = booleanField(body, "echo");
    const top = numberField(body, "logprobs", { least: 0, most: 5, integer: true });
    const stop = stopField(body["stop"], "stop", api.limits.chatStops);
    const maxTokens = tokensField(body, "max_tokens", 0) ?? defaultMaxTokens;
    if (maxTokens === 0 && !echo) throw badField("max_tokens", "must be at least 1 without echo, got 0");
    const n = countField(api, body);
    const format = readResponseFormat(body);
    const params = samplingOf(body);
    const prompting = await promptContext(context, call, { served: model.served, param: "prompt" });
    const { tokenizer } = prompting.model;
    const prompts: { prompt: ArrayLike<number> & Iterable<number>; text: string }[] = [];
    for (const [i, sent] of readPrompts(body["prompt"], Math.floor(api.limits.numSamples / n)).entries()) {
      const prompt = typeof sent === "string" ? await encodePrompt(prompting, sent) : sent;
      if (prompt.length === 0) throw badField(`prompt[${i}]`, "is empty");
      checkContextLength(prompting, prompt.length, maxTokens);
      const text = typeof sent === "string" ? sent : tokenizer.decode(sent);
      prompts.push({ prompt, text: echo ? text : "" });
    }
    const echoed = echo ? prompts.reduce((sum, { prompt }) => sum + prompt.length * n, 0) : 0;
    const scores = { choices: prompts.length * n, echoed, maxTokens, top: top ?? 0 };
    if (top !== undefined) scoredTokens(scores, api.limits.chatScores);
    const echoedText = prompts.reduce((sum, { text }) => sum + text.length * n, 0);
    if (echoedText > api.limits.chatBytes) {
      const problem = `n × the prompts must be at most ${api.limits.chatBytes} characters, got ${echoedText}; lower n`;
      throw badField("echo", problem);
    }
    const head = {
      id: `cmpl-${entropy.uuid().replaceAll("-", "")}`,
      object: "text_completion",
      created: Math.floor(api.clock.now() / 1000),
      model: model.id,
    };

    /** All prompts at once; choice `i * n + k` is the k-th sample of prompt i. */
    const runAll = (signal: AbortSignal, listener: Listener): Promise<Totals[]> => {
      const failed = new AbortController();
      const either = AbortSignal.any([signal, failed.signal]);
      return Promise.all(
        prompts.map(async ({ prompt }, i) => {
          const generation: Generation = {
            tenant: call.caller.tenant,
            model,
            prompt: Int32Array.from(prompt),
            stop,
            params: { ...params, maxTokens },
            n,
            promptLogprobs: echo && top !== undefined,
            top: top ?? 0,
            format,
            createReader: () => createReplyReader({ tokenizer, endTokenIds: tokenizer.eosTokenIds, stop }),
            signal: either,
          };
          try {
            return await generate(api, generation, {
              piece: (index, events, tokens) =>
                listener.piece(i * n + index, events.map((event) => (event as { text: string }).text).join(""), tokens),
              ending: (index, reason) => listener.ending(i * n + index, reason),
            });
          } catch (error) {
            failed.abort(error); // the response is an error, so the other prompts need no replies
            throw error;
          }
        }),
      );
    };
    const logprobsOf = (tokens: readonly ScoredToken[], offset: number): object | null =>
      top === undefined ? null : textLogprobs(tokenizer, tokens, offset);

    if (!stream) {
      const replies = prompts.flatMap(({ text }) =>
        Array.from({ length: n }, () => ({ text, tokens: [] as SampledToken[], reason: "stop" })),
      );
      const totals = await answerWhole(call, (signal) =>
        runAll(signal, {
          piece: (index, text, tokens) => {
            replies[index]!.text += text;
            for (const token of tokens) replies[index]!.tokens.push(token);
          },
          ending: (index, reason) => {
            replies[index]!.reason = reason;
          },
        }),
      );
      const promptLogprobs: TextLogprobsJson[] = [];
      if (top !== undefined) {
        for (const [i, { prompt }] of prompts.entries()) {
          const json = new TextLogprobsJson(tokenizer);
          await json.add(promptTokens(prompt, totals[i]!));
          promptLogprobs.push(json);
        }
      }
      const logprobsJson = async (index: number): Promise<string> => {
        const json = promptLogprobs[Math.floor(index / n)]!.fork();
        await json.add(replies[index]!.tokens);
        return String(json);
      };
      return wholeAnswer({
        head,
        choices: replies.map(({ text, reason }, index) => ({
          choice: { text, index, finish_reason: reason },
          logprobs: () => (top === undefined ? "null" : logprobsJson(index)),
        })),
        usage: usageOf(sumOf(totals)),
      });
    }

    if (echo && top !== undefined) throw unsupported("stream", "is not supported together with echo and logprobs");
    return answerStreamed(context, call, {
      slot,
      heartbeat: keepAlive,
      failure: (problem) => dataEvent(errorBody("openai", problem)),
      run: async (send, signal) => {
        const chunk = (choice: object) =>
          send(dataEvent({ ...head, choices: [choice], ...(includeUsage ? { usage: null } : {}) }));
        const offsets = prompts.flatMap(({ text }) => new Array<number>(n).fill(text.length));
        const begun = new Set<number>();
        const begin = (index: number): void => {
          const { text } = prompts[Math.floor(index / n)]!;
          if (!begun.has(index) && text !== "") chunk({ index, text, logprobs: null, finish_reason: null });
          begun.add(index);
        };
        const totals = await runAll(signal, {
          piece: (index, text, tokens) => {
            begin(index);
            chunk({ index, text, logprobs: logprobsOf(tokens, offsets[index]!), finish_reason: null });
            offsets[index]! += text.length;
          },
          ending: (index, reason) => {
            begin(index);
            chunk({ index, text: "", logprobs: null, finish_reason: reason });
          },
        });
        if (includeUsage) send(dataEvent({ ...head, choices: [], usage: usageOf(sumOf(totals)) }));
        send(doneEvent);
      },
    });
  };
  return (call) => withSlot(context, call, (slot) => answer(call, slot));
}

interface Listener {
  readonly piece: (index: number, text: string, tokens: readonly SampledToken[]) => void;
  readonly ending: (index: number, reason: "stop" | "length") => void;
}

function sumOf(totals: readonly Totals[]): Totals {
  const sum = (of: (each: Totals) => number) => totals.reduce((all, each) => all + of(each), 0);
  return {
    promptTokens: sum((each) => each.promptTokens),
    cachedTokens: sum((each) => each.cachedTokens),
    completionTokens: sum((each) => each.completionTokens),
  };
}

/** A string, an array of token ids, or an array of either. */
function readPrompts(value: unknown, most: number): (string | readonly number[])[] {
  if (typeof value === "string") return [value];
  const list = listField(value, "prompt", Number.POSITIVE_INFINITY);
  if (list.length > 0 && list.every((each) => typeof each === "number")) return [list as number[]];
  if (list.length === 0) throw badField("prompt", "is empty");
  if (list.length > most) {
    throw badField("prompt", `must have at most ${most} entries with this n, got ${list.length}`);
  }
  return list.map((each, i) => {
    if (typeof each === "string") return each;
    const isTokens = Array.isArray(each) && each.length > 0 && each.every((id) => typeof id === "number");
    if (!isTokens) throw badField(`prompt[${i}]`, "must be a string or an array of token ids");
    return each as readonly number[];
  });
}
