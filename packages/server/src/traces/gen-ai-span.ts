/**
 * Selects the GenAI spans of an export and reads what they say: the conventions of OpenTelemetry (attributes, and the older events and
 * indexed attributes), of the AI SDK, and of OpenInference. Other spans are ignored.
 */
import type { JsonValue } from "@tinklet/wire";
import { indexedList } from "./indexed-attributes.ts";
import {
  asText,
  fieldsOf,
  instructionsText,
  jsonOf,
  readCalls,
  readMessages,
  readTools,
  textOf,
} from "./read-messages.ts";
import type { Attributes, ReceivedSpan } from "./received-span.ts";
import type { SpanBody, SpanKind, TraceMessage, TraceSpan, TraceTokens } from "./trace-span.ts";

/** The span to store; `undefined` for a span that is not about a model, a tool or an agent. */
export function genAiSpan(span: ReceivedSpan): TraceSpan | undefined {
  const kind = kindOf(span.attributes);
  if (kind === undefined) return undefined;
  const { traceId, spanId, parentId, name, startedAt, endedAt, service, error, attributes } = span;
  const body = kind === "model" ? modelBody(span) : kind === "tool" ? toolBody(span) : {};
  const model = kind === "agent" ? undefined : shortText(firstOf(attributes, modelNames));
  return {
    traceId,
    spanId,
    kind,
    name,
    startedAt,
    endedAt,
    body,
    ...(parentId === undefined ? {} : { parentId }),
    ...(service === undefined ? {} : { service }),
    ...(model === undefined ? {} : { model }),
    ...(error === undefined ? {} : { error }),
  };
}

const modelNames = ["gen_ai.response.model", "gen_ai.request.model", "ai.model.id", "llm.model_name"];

/** Longest name of a model, a tool or a provider. */
const longestName = 300;
const shortText = (value: JsonValue | undefined): string | undefined => textOf(value)?.slice(0, longestName);

const firstOf = (attributes: Attributes, names: readonly string[]): JsonValue | undefined =>
  names.map((name) => attributes[name]).find((value) => value !== undefined && value !== null);

const operations: Readonly<Record<string, SpanKind>> = {
  chat: "model",
  text_completion: "model",
  generate_content: "model",
  execute_tool: "tool",
  invoke_agent: "agent",
  create_agent: "agent",
};
const openInferenceKinds: Readonly<Record<string, SpanKind>> = { LLM: "model", TOOL: "tool", AGENT: "agent" };

function kindOf(attributes: Attributes): SpanKind | undefined {
  const aiSdk = textOf(attributes["ai.operationId"]);
  if (aiSdk !== undefined) {
    if (/^ai\.(generate|stream)(Text|Object)\.do(Generate|Stream)$/.test(aiSdk)) return "model";
    if (aiSdk === "ai.toolCall") return "tool";
    return /^ai\.(generate|stream)(Text|Object)$/.test(aiSdk) ? "agent" : undefined;
  }
  const operation = textOf(attributes["gen_ai.operation.name"]);
  if (operation !== undefined) return operations[operation];
  const kind = textOf(attributes["openinference.span.kind"]);
  if (kind !== undefined) return openInferenceKinds[kind];
  const request = textOf(attributes["llm.request.type"]); // OpenLLMetry before the conventions
  return request === "chat" || request === "completion" ? "model" : undefined;
}

function modelBody(span: ReceivedSpan): SpanBody {
  const { attributes } = span;
  const omitted = new Set<string>();
  const { input, output } = messagesOf(span, omitted);
  const tools = readTools(toolDefinitions(attributes));
  const usage = usageOf(attributes);
  const finish = shortText(finishReason(attributes));
  const provider = shortText(
    firstOf(attributes, ["gen_ai.provider.name", "gen_ai.system", "ai.model.provider", "llm.provider"]),
  );
  const tokens = tokensOf(attributes);
  return {
    input,
    ...(output === undefined ? {} : { output }),
    ...(tools.length === 0 ? {} : { tools }),
    ...(Object.keys(usage).length === 0 ? {} : { usage }),
    ...(finish === undefined ? {} : { finish_reason: finish }),
    ...(provider === undefined ? {} : { provider }),
    ...(tokens === undefined ? {} : { tokens }),
    ...(omitted.size === 0 ? {} : { omitted: [...omitted].slice(0, 10) }),
  };
}

const finishReason = (attributes: Attributes): JsonValue | undefined => {
  const reasons = attributes["gen_ai.response.finish_reasons"];
  return attributes["ai.response.finishReason"] ?? (Array.isArray(reasons) ? reasons[0] : undefined);
};

interface Exchange {
  readonly input: readonly TraceMessage[];
  readonly output: TraceMessage | undefined;
}

function messagesOf(span: ReceivedSpan, omitted: Set<string>): Exchange {
  const { attributes } = span;
  if (attributes["ai.prompt.messages"] !== undefined || attributes["ai.response.text"] !== undefined)
    return aiSdkMessages(attributes, omitted);
  // OpenTelemetry allows these names on the span and on its event.
  const named = [attributes, ...span.events.map((event) => event.attributes)];
  const attribute = (name: string) => named.map((each) => each[name]).find((value) => value !== undefined);
  const system = instructionsText(attribute("gen_ai.system_instructions"), omitted);
  const input = [
    attribute("gen_ai.input.messages"),
    listValue(indexedList(attributes, "gen_ai.prompt.")),
    listValue(openInference(attributes, "llm.input_messages.")),
    ...span.events.map((event) => event.attributes["gen_ai.prompt"]),
  ].find((value) => value !== undefined);
  const output = [
    attribute("gen_ai.output.messages"),
    listValue(indexedList(attributes, "gen_ai.completion.").map(asAssistant)),
    listValue(openInference(attributes, "llm.output_messages.")),
    ...span.events.map((event) => event.attributes["gen_ai.completion"]),
  ].find((value) => value !== undefined);
  const messages = readMessages(input, omitted);
  const said = readMessages(output, omitted).find(({ role }) => role === "assistant");
  return { input: system === "" ? messages : [{ role: "system", content: system }, ...messages], output: said };
}

const listValue = (list: JsonValue[]): JsonValue | undefined => (list.length === 0 ? undefined : list);
const asAssistant = (value: JsonValue): JsonValue => ({ role: "assistant", ...fieldsOf(value) }) as JsonValue;

/** `message.content` or `message.contents.N.message_content`, and `message.tool_calls.N.tool_call.function…`. */
const openInference = (attributes: Attributes, prefix: string): JsonValue[] =>
  indexedList(attributes, prefix).map((entry): JsonValue => {
    const message = fieldsOf(fieldsOf(entry)["message"]);
    const { contents, tool_calls: calls } = message;
    return {
      ...message,
      ...(Array.isArray(contents) ? { content: contents.map((one) => fieldsOf(one)["message_content"] ?? null) } : {}),
      tool_calls: Array.isArray(calls) ? calls.map((one) => fieldsOf(one)["tool_call"] ?? null) : [],
    } as JsonValue;
  });

function aiSdkMessages(attributes: Attributes, omitted: Set<string>): Exchange {
  const input = readMessages(attributes["ai.prompt.messages"], omitted);
  const [text, object] = [textOf(attributes["ai.response.text"]), textOf(attributes["ai.response.object"])];
  const reasoning = textOf(attributes["ai.response.reasoning"]) ?? "";
  const calls = readCalls(attributes["ai.response.toolCalls"]);
  if (text === undefined && object === undefined && calls.length === 0) return { input, output: undefined };
  const output: TraceMessage = {
    role: "assistant",
    content: text ?? object ?? "",
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return { input, output };
}

function toolDefinitions(attributes: Attributes): JsonValue | undefined {
  const found = firstOf(attributes, ["gen_ai.tool.definitions", "ai.prompt.tools"]);
  if (found !== undefined) return found;
  const indexed = [
    ...indexedList(attributes, "llm.request.functions."),
    ...indexedList(attributes, "llm.tools.").map(
      (one) => jsonOf(fieldsOf(fieldsOf(one)["tool"])["json_schema"]) ?? null,
    ),
  ];
  return listValue(indexed);
}

function usageOf(attributes: Attributes): NonNullable<SpanBody["usage"]> {
  const count = (...names: readonly string[]) => {
    const value = firstOf(attributes, names);
    return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
  };
  const input = count(
    "gen_ai.usage.input_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
  );
  const output = count(
    "gen_ai.usage.output_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
  );
  return {
    ...(input === undefined ? {} : { input_tokens: input }),
    ...(output === undefined ? {} : { output_tokens: output }),
  };
}

/** The tokens that `@tinklet/ai` records. Lists of other lengths or values are dropped: training on them would be wrong. */
function tokensOf(attributes: Attributes): TraceTokens | undefined {
  const prompt = jsonOf(attributes["tinklet.prompt_token_ids"]);
  const sampled = jsonOf(attributes["tinklet.token_ids"]);
  const logprobs = jsonOf(attributes["tinklet.logprobs"]);
  if (!isTokenIds(prompt) || !isTokenIds(sampled) || sampled.length === 0) return undefined;
  const stop = shortText(attributes["tinklet.stop_reason"]);
  const sampler = jsonOf(attributes["tinklet.sampler"]);
  const areLogprobs =
    Array.isArray(logprobs) &&
    logprobs.length === sampled.length &&
    logprobs.every((one) => typeof one === "number" && one <= 0);
  return {
    prompt_token_ids: prompt,
    token_ids: sampled,
    ...(areLogprobs ? { logprobs: logprobs as number[] } : {}),
    ...(stop === undefined ? {} : { stop_reason: stop }),
    ...(sampler === undefined ? {} : { sampler }),
  };
}

const isTokenIds = (value: JsonValue | undefined): value is number[] =>
  Array.isArray(value) &&
  value.every((id) => typeof id === "number" && Number.isInteger(id) && id >= 0 && id < 2 ** 31);

function toolBody({ attributes, name }: ReceivedSpan): SpanBody {
  const id = shortText(firstOf(attributes, ["gen_ai.tool.call.id", "ai.toolCall.id", "tool_call.id"]));
  const called = shortText(firstOf(attributes, ["gen_ai.tool.name", "ai.toolCall.name", "tool.name"])) ?? name;
  const sent = firstOf(attributes, ["gen_ai.tool.call.arguments", "ai.toolCall.args", "tool_arguments", "input.value"]);
  const result = firstOf(attributes, [
    "gen_ai.tool.call.result",
    "ai.toolCall.result",
    "tool_response",
    "output.value",
  ]);
  return {
    call: {
      name: called,
      ...(id === undefined ? {} : { id }),
      ...(sent === undefined ? {} : { arguments: asText(sent) }),
      ...(result === undefined ? {} : { result: asText(result) }),
    },
  };
}
