/**
 * OpenAI's Responses API: create (complete or streamed), read and delete. Unless `store` is false, a response is stored with its whole
 * conversation, so that `previous_response_id` continues it.
 */
import type { ChatMessage } from "@tinklet/models/chat";
import { stringifyJson } from "@tinklet/wire";
import { entropy } from "@tinklet/wire/entropy";
import { omitUndefined } from "@tinklet/wire/options";
import { Refusal } from "../../../../queue/refusal.ts";
import { addResponse, deleteResponse, getResponse } from "../../../../store/tables/responses.ts";
import { jsonAnswer, jsonTextAnswer, type Problem } from "../../../answers.ts";
import type { Call } from "../../../api.ts";
import { namedEvent } from "../../../event-stream.ts";
import { answerStreamed, answerWhole, type ChatContext, type ChatSlot, withSlot } from "../../answer-chat.ts";
import {
  type Body,
  badField,
  booleanField,
  checkFields,
  type FieldRules,
  listField,
  objectField,
  textField,
  unsupported,
} from "../../fields.ts";
import { generate, type Totals } from "../../generate.ts";
import { findModel } from "../../model-names.ts";
import { promptContext, renderPrompt } from "../../prompt.ts";
import { generationOf, toolsOf } from "../../reply.ts";
import type { ResponseFormat } from "../../response-format.ts";
import type { ChatHandlers } from "../../routes.ts";
import { samplingOf, tokensField } from "../../sampling.ts";
import { readToolUse } from "../messages.ts";
import { keepAlive } from "../usage.ts";
import { ResponseOutput } from "./output.ts";
import { readInput } from "./read-input.ts";

const rules: FieldRules = {
  supported: [
    "model",
    "input",
    "instructions",
    "previous_response_id",
    "store",
    "stream",
    "stream_options",
    "max_output_tokens",
    "temperature",
    "top_p",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "text",
    "reasoning",
    "metadata",
    "include",
  ],
  ignored: [
    "user",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "max_tool_calls", // counts calls of built-in tools, of which there are none
  ],
  neutral: {
    background: (value) => value === false,
    truncation: (value) => value === "disabled",
    top_logprobs: (value) => value === 0,
    conversation: () => false,
    prompt: () => false,
  },
};

/** Additions to a response that cost nothing because they are always there, or never. */
const includable = new Set(["reasoning.encrypted_content"]);

export function responseHandlers(
  context: ChatContext,
): Pick<ChatHandlers, "oaiCreateResponse" | "oaiGetResponse" | "oaiDeleteResponse"> {
  const { api } = context;
  const notFound = (id: string) =>
    new Refusal(404, "response_not_found", `There is no response ${JSON.stringify(id.slice(0, 100))} of this key.`);

  /** The conversation that a request continues. */
  const previousOf = (call: Call, id: string | undefined): readonly ChatMessage[] => {
    if (id === undefined) return [];
    const row = getResponse(api.store.db.sql, id, call.caller.tenant, api.clock.now());
    if (row !== undefined) return JSON.parse(row.messages) as ChatMessage[];
    throw badField(
      "previous_response_id",
      `${JSON.stringify(id)} is not stored (any more)`,
      "previous_response_not_found",
    );
  };

  const store = async (call: Call, response: StoredResponse, messages: readonly ChatMessage[]): Promise<void> => {
    const { responseTtlMs, responsesPerTenant } = api.limits;
    const now = api.clock.now();
    const row = {
      id: response.id,
      tenant: call.caller.tenant,
      body: stringifyJson(response),
      messages: JSON.stringify(messages),
      created_at: now,
      expires_at: now + responseTtlMs,
    };
    await api.store.db.write((sql) => addResponse(sql, row, responsesPerTenant));
  };

  const create = async (call: Call, slot: ChatSlot): Promise<Response> => {
    const body = objectField(call.wire, "body");
    checkFields(body, rules);
    for (const [i, each] of optionalList(body["include"], "include").entries()) {
      if (typeof each !== "string" || !includable.has(each))
        throw unsupported(`include[${i}]`, `must be ${[...includable].join(", ")}`);
    }
    const model = findModel(api, call.caller.tenant, body["model"]);
    const previousId = optionalText(body["previous_response_id"], "previous_response_id", 200);
    const instructions = optionalText(body["instructions"], "instructions");
    const { format, formatObject } = readText(body);
    const tools = readToolUse(body, api.limits, "beside");
    const maxTokens = tokensField(body, "max_output_tokens");
    const params = { ...samplingOf(body), ...omitUndefined({ maxTokens }) };
    const isStored = body["store"] == null || booleanField(body, "store");
    const stream = booleanField(body, "stream");
    const effort = readEffort(body);
    const metadata = readMetadata(body["metadata"]);
    const conversation = [...previousOf(call, previousId), ...readInput(body["input"], api.limits)];
    if (conversation.length === 0) throw badField("input", "must not be empty");
    if (conversation.length > api.limits.chatMessages) {
      const problem = `with the previous response it has ${conversation.length} messages; the limit is ${api.limits.chatMessages}`;
      throw badField("input", problem);
    }
    const system = instructions === undefined ? [] : [{ role: "system", content: instructions }];
    const variables = effort === undefined ? {} : { reasoning_effort: effort, enable_thinking: effort !== "none" };
    const prompting = await promptContext(context, call, { served: model.served, param: "input" });
    const messages = [...system, ...conversation];
    const chatPrompt = await renderPrompt(prompting, { messages, variables, ...toolsOf(tools) });
    const reply = { model, context: prompting, chatPrompt, stop: [], params, n: 1, format, tools };
    const generation = generationOf({ ...reply, roomParam: "max_output_tokens" });

    const head = {
      id: `resp_${entropy.uuid().replaceAll("-", "")}`,
      object: "response",
      created_at: Math.floor(api.clock.now() / 1000),
      background: false,
      error: null,
      ...repeated({
        instructions: instructions ?? null,
        text: { format: formatObject },
        tool_choice: body["tool_choice"] ?? "auto",
        tools: body["tools"] ?? [],
      }),
      max_output_tokens: maxTokens ?? null,
      metadata,
      model: model.id,
      parallel_tool_calls: tools.parallel,
      previous_response_id: previousId ?? null,
      reasoning: { effort: effort ?? null, summary: null },
      store: isStored,
      temperature: params.temperature,
      top_p: params.topP ?? 1,
      truncation: "disabled",
    };
    const begun = { ...head, status: "in_progress", incomplete_details: null, output: [], usage: null };

    /** Generates and stores the response; it is stored before its end is sent, so that the client can continue it. */
    const run = async (output: ResponseOutput, signal: AbortSignal): Promise<StoredResponse> => {
      let isCutOff = false;
      let reasoningTokens = 0;
      const totals = await generate(api, generation(signal), {
        piece: (_index, events, tokens) => {
          if (events.length > 0 && events.every(({ type }) => type === "reasoning")) reasoningTokens += tokens.length;
          for (const event of events) output.write(event);
        },
        ending: (_index, reason) => {
          isCutOff = reason === "length";
          output.end(isCutOff ? "incomplete" : "completed");
        },
      });
      const response = {
        ...head,
        status: isCutOff ? "incomplete" : "completed",
        incomplete_details: isCutOff ? { reason: "max_output_tokens" } : null,
        output: output.items,
        usage: usageOf(totals, reasoningTokens),
      };
      if (isStored) await store(call, response, [...conversation, ...output.messages]);
      return response;
    };

    if (!stream) {
      const output = new ResponseOutput();
      return jsonAnswer(await answerWhole(call, (signal) => run(output, signal)));
    }
    let sent = 0;
    const eventOf = (type: string, fields: object): string => namedEvent({ type, sequence_number: sent++, ...fields });
    return answerStreamed(context, call, {
      slot,
      heartbeat: keepAlive,
      failure: ({ code, detail }: Problem) => {
        const error = { code: "server_error", message: detail };
        const failed = { ...begun, status: "failed", error };
        return (
          eventOf("error", { code, message: detail, param: null }) + eventOf("response.failed", { response: failed })
        );
      },
      run: async (send, signal) => {
        const emit = (type: string, fields: object) => {
          if (sent === 0) {
            const opening = { response: begun };
            send(eventOf("response.created", opening) + eventOf("response.in_progress", opening));
          }
          send(eventOf(type, fields));
        };
        const response = await run(new ResponseOutput(emit), signal);
        emit(response.status === "incomplete" ? "response.incomplete" : "response.completed", { response });
      },
    });
  };

  return {
    oaiCreateResponse: (call) => withSlot(context, call, (slot) => create(call, slot)),
    oaiGetResponse: ({ caller }, { response: id = "" }) => {
      const row = getResponse(api.store.db.sql, id, caller.tenant, api.clock.now());
      if (row === undefined) throw notFound(id);
      return jsonTextAnswer(row.body);
    },
    oaiDeleteResponse: async ({ caller }, { response: id = "" }) => {
      const isDeleted = await api.store.db.write((sql) => deleteResponse(sql, id, caller.tenant));
      if (!isDeleted) throw notFound(id);
      return jsonAnswer({ id, object: "response", deleted: true });
    },
  };
}

interface Repeated {
  readonly instructions: string | null;
  readonly text: { readonly format: object };
  readonly tool_choice: unknown;
  readonly tools: unknown;
}

/** Characters of the request that a response repeats. */
const mostRepeated = 16_384;

/** Settings as a response repeats them. Long ones are left out: a stream repeats them three times, in memory until its client reads. */
function repeated(settings: Repeated): Repeated {
  if (stringifyJson(settings).length <= mostRepeated) return settings;
  const { type } = settings.text.format as { type?: unknown };
  return { instructions: null, text: { format: { type } }, tool_choice: "auto", tools: [] };
}

/** OpenAI's own limits. */
const metadataLimits = { pairs: 16, key: 64, value: 512 } as const;

function readMetadata(value: unknown): Body {
  if (value === undefined || value === null) return {};
  const metadata = objectField(value, "metadata");
  const pairs = Object.entries(metadata);
  const { pairs: most, key: longestKey, value: longestValue } = metadataLimits;
  if (pairs.length > most) throw badField("metadata", `must have at most ${most} entries, got ${pairs.length}`);
  for (const [key, each] of pairs) {
    const param = `metadata.${key.slice(0, longestKey)}`;
    if (key.length > longestKey) throw badField(param, `a key must have at most ${longestKey} characters`);
    textField(each, param, longestValue);
  }
  return metadata;
}

interface StoredResponse {
  readonly id: string;
  readonly status: string;
}

const usageOf = ({ promptTokens, cachedTokens, completionTokens }: Totals, reasoningTokens: number): object => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: Math.min(cachedTokens, promptTokens) },
  output_tokens: completionTokens,
  output_tokens_details: { reasoning_tokens: reasoningTokens },
  total_tokens: promptTokens + completionTokens,
});

const optionalText = (value: unknown, param: string, longest?: number): string | undefined =>
  value === undefined || value === null ? undefined : textField(value, param, longest);

const optionalList = (value: unknown, param: string): readonly unknown[] =>
  value === undefined || value === null ? [] : listField(value, param, 20);

/** `text`: the format of the reply. */
function readText(body: Body): { readonly format: ResponseFormat | undefined; readonly formatObject: object } {
  const text = body["text"] == null ? {} : objectField(body["text"], "text");
  const { format, verbosity, ...others } = text as Record<string, unknown>;
  const [other] = Object.keys(others);
  if (other !== undefined) throw unsupported(`text.${other.slice(0, 100)}`, "is not supported");
  if (verbosity != null && verbosity !== "medium") throw unsupported("text.verbosity", "must be medium");
  const roomParam = "max_output_tokens";
  const plain = { format: undefined, formatObject: { type: "text" } };
  if (format == null) return plain;
  const given = objectField(format, "text.format");
  switch (given["type"]) {
    case "text":
      return plain;
    case "json_object":
      return { format: { constraint: { type: "json_object" }, param: "text.format", roomParam }, formatObject: given };
    case "json_schema": {
      textField(given["name"], "text.format.name", 64);
      const param = "text.format.schema";
      const schema = objectField(given["schema"], param);
      return { format: { constraint: { type: "json_schema", schema }, param, roomParam }, formatObject: given };
    }
    default:
      throw unsupported("text.format.type", "must be text, json_object or json_schema");
  }
}

function readEffort(body: Body): string | undefined {
  if (body["reasoning"] == null) return undefined;
  return optionalText(objectField(body["reasoning"], "reasoning")["effort"], "reasoning.effort", 20);
}
