/** `POST /chat/completions` of OpenAI's API. */
import type { ReplyEvent, ToolCall } from "@tinklet/models/chat";
import { entropy } from "@tinklet/wire/entropy";
import { omitUndefined } from "@tinklet/wire/options";
import type { Call } from "../../api.ts";
import { answerStreamed, answerWhole, type ChatContext, type ChatSlot, withSlot } from "../answer-chat.ts";
import { errorBody } from "../error-body.ts";
import {
  type Body,
  badField,
  booleanField,
  checkFields,
  type FieldRules,
  numberField,
  objectField,
  stopField,
  textField,
} from "../fields.ts";
import { generate, type SampledToken } from "../generate.ts";
import { findModel } from "../model-names.ts";
import { promptContext, renderPrompt } from "../prompt.ts";
import { generationOf, toolsOf } from "../reply.ts";
import { readResponseFormat, roomParamOf } from "../response-format.ts";
import type { ChatHandler } from "../routes.ts";
import { countField, samplingOf, tokensField } from "../sampling.ts";
import { chatLogprobs, chatLogprobsJson, scoredTokens } from "./logprobs.ts";
import { readMessages, readToolUse } from "./messages.ts";
import { dataEvent, doneEvent, keepAlive, usageOf } from "./usage.ts";
import { wholeAnswer } from "./whole-answer.ts";

/** Largest `top_logprobs`, as in OpenAI's API. */
const mostTop = 20;

/** Parameters of both OpenAI endpoints. */
export const commonRules: FieldRules = {
  supported: [
    "model",
    "max_tokens",
    "temperature",
    "top_p",
    "top_k",
    "seed",
    "stop",
    "n",
    "logprobs",
    "stream",
    "stream_options",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "response_format",
  ],
  ignored: [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
  ],
  neutral: {},
};

const rules: FieldRules = {
  supported: [
    ...commonRules.supported,
    "messages",
    "max_completion_tokens",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "chat_template_kwargs",
    "reasoning_effort",
  ],
  // `prediction` only makes responses faster
  ignored: [...commonRules.ignored, "prediction"],
  neutral: {
    ...commonRules.neutral,
    modalities: (value) => Array.isArray(value) && value.every((each) => each === "text"),
    verbosity: (value) => value === "medium",
    functions: (value) => Array.isArray(value) && value.length === 0,
    function_call: (value) => value === "none",
    audio: () => false,
    web_search_options: () => false,
  },
};

/** Options of a stream. */
export function readStream(body: Body): { readonly stream: boolean; readonly includeUsage: boolean } {
  const stream = booleanField(body, "stream");
  const sent = body["stream_options"];
  if (sent === undefined || sent === null) return { stream, includeUsage: false };
  if (!stream) throw badField("stream_options", "needs stream: true");
  return { stream, includeUsage: booleanField(objectField(sent, "stream_options"), "include_usage") };
}

/** Variables of the chat template: `chat_template_kwargs`, and those that templates with thinking read for `reasoning_effort`. */
function readVariables(body: Body): Record<string, unknown> {
  const { chat_template_kwargs: variables, reasoning_effort: effort } = body;
  const known = effort === undefined || effort === null ? undefined : textField(effort, "reasoning_effort", 20);
  return {
    ...(known === undefined ? {} : { reasoning_effort: known, enable_thinking: known !== "none" }),
    ...(variables === undefined || variables === null ? {} : objectField(variables, "chat_template_kwargs")),
  };
}

export function chatCompletionsHandler(context: ChatContext): ChatHandler {
  const { api } = context;
  const answer = async (call: Call, slot: ChatSlot): Promise<Response> => {
    const body = objectField(call.wire, "body");
    checkFields(body, rules);
    const model = findModel(api, call.caller.tenant, body["model"]);
    const messages = readMessages(body["messages"], api.limits);
    const tools = readToolUse(body, api.limits, "member");
    const format = readResponseFormat(body);
    const { stream, includeUsage } = readStream(body);
    const withLogprobs = booleanField(body, "logprobs");
    const top = numberField(body, "top_logprobs", { least: 0, most: mostTop, integer: true }) ?? 0;
    if (top > 0 && !withLogprobs) throw badField("top_logprobs", "needs logprobs: true");
    const stop = stopField(body["stop"], "stop", api.limits.chatStops);
    const n = countField(api, body);
    const asked = tokensField(body, "max_completion_tokens") ?? tokensField(body, "max_tokens");
    const scores = { choices: n, maxTokens: asked, top };
    const maxTokens = withLogprobs ? scoredTokens(scores, api.limits.chatScores) : asked;
    const params = { ...samplingOf(body), ...omitUndefined({ maxTokens }) };
    const variables = readVariables(body);
    const prompting = await promptContext(context, call, { served: model.served, param: "messages" });
    const chatPrompt = await renderPrompt(prompting, { messages, variables, ...toolsOf(tools) });
    const reply = { model, context: prompting, chatPrompt, stop, params, n, top, format, tools };
    const generation = generationOf({ ...reply, roomParam: roomParamOf(body) });
    const { tokenizer } = prompting.model;
    const id = `chatcmpl-${entropy.uuid().replaceAll("-", "")}`;
    const head = { id, created: Math.floor(api.clock.now() / 1000), model: model.id };
    const logprobs = (tokens: readonly SampledToken[]) => (withLogprobs ? chatLogprobs(tokenizer, tokens) : null);

    if (!stream) {
      const replies = Array.from({ length: n }, () => new ReplyBuilder());
      const totals = await answerWhole(call, (signal) =>
        generate(api, generation(signal), {
          piece: (index, events, tokens) => replies[index]!.add(events, tokens),
          ending: (index, reason) => {
            replies[index]!.reason = reason;
          },
        }),
      );
      return wholeAnswer({
        head: { ...head, object: "chat.completion" },
        choices: replies.map((reply, index) => ({
          choice: {
            index,
            message: reply.message(),
            finish_reason: finishReason(reply.reason, reply.calls.length),
          },
          logprobs: () => (withLogprobs ? chatLogprobsJson(tokenizer, reply.tokens) : "null"),
        })),
        usage: usageOf(totals),
      });
    }

    const chunk = (choices: readonly object[], rest: object = {}) =>
      dataEvent({
        ...head,
        object: "chat.completion.chunk",
        choices,
        ...(includeUsage ? { usage: null } : {}),
        ...rest,
      });
    return answerStreamed(context, call, {
      slot,
      heartbeat: keepAlive,
      failure: (problem) => dataEvent(errorBody("openai", problem)),
      run: async (send, signal) => {
        const calls = new Array<number>(n).fill(0);
        const begun = new Set<number>();
        const begin = (index: number): void => {
          if (begun.has(index)) return;
          begun.add(index);
          send(chunk([{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }]));
        };
        const totals = await generate(api, generation(signal), {
          piece: (index, events, tokens) => {
            begin(index);
            const deltas = events.map((event) => deltaOf(event, () => calls[index]!++));
            if (deltas.length === 0 && withLogprobs) deltas.push({ content: "" });
            for (const [i, delta] of deltas.entries()) {
              send(chunk([{ index, delta, logprobs: i === 0 ? logprobs(tokens) : null, finish_reason: null }]));
            }
          },
          ending: (index, reason) => {
            begin(index);
            send(chunk([{ index, delta: {}, logprobs: null, finish_reason: finishReason(reason, calls[index]!) }]));
          },
        });
        if (includeUsage) send(chunk([], { usage: usageOf(totals) }));
        send(doneEvent);
      },
    });
  };
  return (call) => withSlot(context, call, (slot) => answer(call, slot));
}

const finishReason = (reason: "stop" | "length", calls: number): string =>
  reason === "stop" && calls > 0 ? "tool_calls" : reason;

const callId = (): string => `call_${entropy.uuid().replaceAll("-", "").slice(0, 24)}`;

const callOf = ({ name, arguments: json }: ToolCall): object => ({
  id: callId(),
  type: "function",
  function: { name, arguments: json },
});

function deltaOf(event: ReplyEvent, nextCall: () => number): object {
  if (event.type === "text") return { content: event.text };
  if (event.type === "reasoning") return { reasoning_content: event.text };
  return { tool_calls: [{ index: nextCall(), ...callOf(event.call) }] };
}

/** Collects the events of a reply into one message. */
class ReplyBuilder {
  readonly tokens: SampledToken[] = [];
  readonly calls: ToolCall[] = [];
  reason: "stop" | "length" = "stop";
  #text = "";
  #reasoning = "";

  add(events: readonly ReplyEvent[], tokens: readonly SampledToken[]): void {
    for (const token of tokens) this.tokens.push(token);
    for (const event of events) {
      if (event.type === "text") this.#text += event.text;
      else if (event.type === "reasoning") this.#reasoning += event.text;
      else this.calls.push(event.call);
    }
  }

  message(): object {
    const isCall = this.calls.length > 0;
    return {
      role: "assistant",
      content: isCall && this.#text === "" ? null : this.#text,
      ...(this.#reasoning === "" ? {} : { reasoning_content: this.#reasoning }),
      ...(isCall ? { tool_calls: this.calls.map(callOf) } : {}),
      refusal: null,
    };
  }
}
