/** `POST /messages` and `/messages/count_tokens` of Anthropic's API. */

import type { ReplyEvent } from "@tinklet/models/chat";
import { entropy } from "@tinklet/wire/entropy";
import { omitUndefined } from "@tinklet/wire/options";
import { Refusal } from "../../../queue/refusal.ts";
import { type DetailedProblem, jsonAnswer } from "../../answers.ts";
import type { Call } from "../../api.ts";
import { namedEvent } from "../../event-stream.ts";
import { answerStreamed, answerWhole, type ChatContext, type ChatSlot, withSlot } from "../answer-chat.ts";
import { errorBody } from "../error-body.ts";
import { badField, booleanField, checkFields, type FieldRules, objectField, stopField } from "../fields.ts";
import { generate, type Totals } from "../generate.ts";
import { findModel } from "../model-names.ts";
import { promptContext, renderPrompt } from "../prompt.ts";
import { generationOf } from "../reply.ts";
import { readOutputFormat } from "../response-format.ts";
import type { ChatHandlers } from "../routes.ts";
import { samplingOf, tokensField } from "../sampling.ts";
import { blocksOf, createBlockWriter } from "./blocks.ts";
import { readConversation } from "./conversation.ts";

const promptFields = [
  "model",
  "messages",
  "system",
  "tools",
  "tool_choice",
  "thinking",
  "output_config",
  "output_format",
  "thread",
];
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;

const countRules: FieldRules = {
  supported: promptFields,
  ignored: ["cache_control"],
  neutral: { mcp_servers: isEmptyList, container: () => false, context_management: () => false },
};

const rules: FieldRules = {
  supported: [...promptFields, "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "stream"],
  ignored: [...countRules.ignored, "metadata", "service_tier", "inference_geo"],
  neutral: countRules.neutral,
};

/** Anthropic's Python client (`tool_runner`) repeats a request without `thread` when the error has these details. */
class UnsupportedThread extends Refusal implements DetailedProblem {
  readonly details = { error_code: "thread_unsupported_request", unsupported: ["thread"] };
  constructor() {
    super(400, "unsupported_value", "thread: is not supported; leave it out", { param: "thread" });
  }
}

/** As in Anthropic's API, `input_tokens` does not include tokens from the cache. */
const usageOf = ({ promptTokens, cachedTokens, completionTokens }: Totals): object => ({
  input_tokens: promptTokens - cachedTokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cachedTokens,
  output_tokens: completionTokens,
});

export function anthropicHandlers(
  context: ChatContext,
): Pick<ChatHandlers, "anthropicMessages" | "anthropicCountTokens"> {
  const { api } = context;

  const prepare = async (call: Call, fields: FieldRules) => {
    const body = objectField(call.wire, "body");
    checkFields(body, fields);
    if (body["thread"] != null) throw new UnsupportedThread();
    const model = findModel(api, call.caller.tenant, body["model"]);
    const { conversation, tools } = readConversation(body, api.limits);
    const prompting = await promptContext(context, call, { served: model.served, param: "messages" });
    return { body, model, context: prompting, tools, chatPrompt: await renderPrompt(prompting, conversation) };
  };

  const countTokens = async (call: Call): Promise<Response> => {
    const { chatPrompt } = await prepare(call, countRules);
    return jsonAnswer({ input_tokens: chatPrompt.prompt.length });
  };

  const answer = async (call: Call, slot: ChatSlot): Promise<Response> => {
    const { body, ...prepared } = await prepare(call, rules);
    const { model } = prepared;
    const maxTokens = tokensField(body, "max_tokens");
    if (maxTokens === undefined) throw badField("max_tokens", "is required", "missing_required_parameter");
    const stop = stopField(body["stop_sequences"], "stop_sequences", api.limits.chatStops);
    const params = { ...samplingOf(body), ...omitUndefined({ maxTokens }) };
    const format = readOutputFormat(body);
    const generation = generationOf({ ...prepared, stop, params, n: 1, format, roomParam: "max_tokens" });
    const head = {
      id: `msg_${entropy.uuid().replaceAll("-", "").slice(0, 24)}`,
      type: "message",
      role: "assistant",
      model: model.id,
    };

    if (!booleanField(body, "stream")) {
      const events: ReplyEvent[] = [];
      let ending = { reason: "stop" as "stop" | "length", stopText: undefined as string | undefined };
      const totals = await answerWhole(call, (signal) =>
        generate(api, generation(signal), {
          piece: (_index, more) => {
            for (const event of more) events.push(event);
          },
          ending: (_index, reason, stopText) => {
            ending = { reason, stopText };
          },
        }),
      );
      const calls = events.filter(({ type }) => type === "tool_call").length;
      return jsonAnswer({
        ...head,
        content: blocksOf(events),
        ...stopOf(ending.reason, ending.stopText, calls),
        usage: usageOf(totals),
      });
    }

    let begun = false;
    /** The first event of a message, once. */
    const opening = (): string => {
      if (begun) return "";
      begun = true;
      const usage = usageOf({ promptTokens: prepared.chatPrompt.prompt.length, cachedTokens: 0, completionTokens: 0 });
      const message = { ...head, content: [], stop_reason: null, stop_sequence: null, usage };
      return namedEvent({ type: "message_start", message });
    };
    return answerStreamed(context, call, {
      slot,
      heartbeat: () => opening() + namedEvent({ type: "ping" }),
      failure: (problem) => namedEvent(errorBody("anthropic", problem) as { type: string }),
      run: async (send, signal) => {
        const blocks = createBlockWriter((text) => send(opening() + text));
        let delta = stopOf("stop", undefined, 0);
        const totals = await generate(api, generation(signal), {
          piece: (_index, events) => {
            for (const event of events) blocks.write(event);
          },
          ending: (_index, reason, stopText) => {
            blocks.end();
            delta = stopOf(reason, stopText, blocks.calls);
          },
        });
        const last = { type: "message_delta", delta, usage: usageOf(totals) };
        send(opening() + namedEvent(last) + namedEvent({ type: "message_stop" }));
      },
    });
  };

  return {
    anthropicCountTokens: (call) => withSlot(context, call, () => countTokens(call)),
    anthropicMessages: (call) => withSlot(context, call, (slot) => answer(call, slot)),
  };
}

function stopOf(reason: "stop" | "length", stopText: string | undefined, calls: number) {
  const stop_reason =
    reason === "length" ? "max_tokens" : stopText !== undefined ? "stop_sequence" : calls > 0 ? "tool_use" : "end_turn";
  return { stop_reason, stop_sequence: stopText ?? null };
}
