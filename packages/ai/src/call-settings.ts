/**
 * Settings of a call as sampling parameters. What the Tinker API cannot honour becomes a warning, as the AI SDK's specification has it:
 * nothing is dropped silently.
 */
import type {
  LanguageModelV3CallOptions,
  LanguageModelV3FunctionTool,
  LanguageModelV3ProviderTool,
  SharedV3Warning,
} from "@ai-sdk/provider";
import type { Chat, ChatTool } from "@tinklet/models/chat";
import type { Tokenizer } from "@tinklet/models/tokenizer";
import { InvalidInputError, type SampleConstraint, type SamplingParamsInput } from "@tinklet/sdk";
import type { JsonObject } from "@tinklet/wire";
import { checkOptions, type OptionNames, omitUndefined } from "@tinklet/wire/options";
import { metadataName } from "./token-record.ts";

/** Options of a call under `providerOptions.tinklet`. */
export interface TinkletCallOptions {
  /** Further variables of the model's chat template, for example `{ enable_thinking: false }`. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
  /**
   * Whether a reply that is asked for as JSON is bound to it, where the server can. `false` lets the model write what it likes, for schemas
   * with keywords that cannot be kept. @defaultValue true
   */
  readonly constrain?: boolean;
}
const callOptionNames: OptionNames<TinkletCallOptions> = { templateVariables: true, constrain: true };

/** A call, read. */
export interface CallSettings {
  readonly params: SamplingParamsInput;
  /** Texts that end the reply, besides the model's own tokens. */
  readonly stop: readonly string[];
  /** The format that the reply is bound to. */
  readonly constraint: SampleConstraint | undefined;
  readonly tools: readonly ChatTool[];
  readonly variables: Readonly<Record<string, unknown>>;
  readonly warnings: SharedV3Warning[];
}

/** The model that a call is for. */
export interface CalledModel {
  readonly chat: Chat;
  readonly tokenizer: Tokenizer;
  /** Whether the server can bind a reply to a format. */
  readonly canConstrain: boolean;
}

/** @throws InvalidInputError for options of `providerOptions.tinklet` that there are none of. */
export function readCall(
  options: LanguageModelV3CallOptions,
  { chat, tokenizer, canConstrain }: CalledModel,
): CallSettings {
  const warnings: SharedV3Warning[] = [];
  const unsupported = (feature: string, details: string) => warnings.push({ type: "unsupported", feature, details });
  for (const feature of ["presencePenalty", "frequencyPenalty"] as const) {
    if (options[feature]) unsupported(feature, "The Tinker API has no such parameter; nothing is penalised.");
  }
  const own = readOwn(options);
  const tools = readTools(options, unsupported);
  const { maxOutputTokens: maxTokens, temperature, topP, topK, seed, stopSequences: stop = [] } = options;
  const { responseFormat: format } = options;
  let constraint: SampleConstraint | undefined;
  if (format?.type === "json") {
    const why = unboundBecause({ tools, canConstrain, isWanted: own.constrain ?? true });
    if (why === undefined) constraint = constraintOf(format.schema);
    else
      unsupported("responseFormat", `${why} The reply is not bound to JSON. Ask for it in the prompt, and check it.`);
  }
  // A reply with a format ends with it; an empty list would be no end at all.
  const ends = constraint === undefined ? stopsOf(stop, chat, tokenizer) : stop.length === 0 ? undefined : stop;
  return {
    params: omitUndefined({ maxTokens, temperature, topP, topK, seed, stop: ends }),
    stop,
    constraint,
    tools,
    variables: readVariables(options, own),
    warnings,
  };
}

/** Why a reply cannot be bound to a format; undefined where it can. */
function unboundBecause(call: {
  readonly tools: readonly ChatTool[];
  readonly canConstrain: boolean;
  readonly isWanted: boolean;
}): string | undefined {
  if (!call.isWanted) return "It was turned off by providerOptions.tinklet.constrain.";
  if (!call.canConstrain) return "The server has no constrained decoding.";
  return call.tools.length > 0 ? "A reply that may call tools has no format." : undefined;
}

const constraintOf = (schema: unknown): SampleConstraint =>
  schema === undefined ? { type: "json_object" } : { type: "json_schema", schema: schema as JsonObject };

/** Where the sampler ends. Ids where that is enough: they hold for every tokenizer; the API takes no mix of both. */
function stopsOf(stop: readonly string[], chat: Chat, tokenizer: Tokenizer): readonly string[] | readonly number[] {
  if (stop.length === 0) return chat.endTokenIds;
  const ends = chat.endTokenIds.map((id) => tokenizer.idToToken(id)).filter((token) => token !== undefined);
  return [...stop, ...ends];
}

function readTools(
  { tools = [], toolChoice }: LanguageModelV3CallOptions,
  unsupported: (feature: string, details: string) => void,
): ChatTool[] {
  if (toolChoice?.type === "none") return [];
  if (toolChoice?.type === "required" || toolChoice?.type === "tool") {
    unsupported("toolChoice", `A call cannot be forced; the model decides, as with "auto".`);
  }
  const chosen = toolChoice?.type === "tool" ? toolChoice.toolName : undefined;
  return tools.flatMap((tool) => {
    if (isProviderTool(tool)) {
      unsupported(`provider tool ${tool.id}`, "Only tools that this program runs can be offered.");
      return [];
    }
    if (chosen !== undefined && tool.name !== chosen) return [];
    if (tool.strict) unsupported(`strict mode of tool ${tool.name}`, "Arguments are not bound to the schema.");
    const { name, description, inputSchema: parameters } = tool;
    return [{ type: "function" as const, function: { name, ...omitUndefined({ description }), parameters } }];
  });
}

const isProviderTool = (
  tool: LanguageModelV3FunctionTool | LanguageModelV3ProviderTool,
): tool is LanguageModelV3ProviderTool => tool.type === "provider";

function readOwn(options: LanguageModelV3CallOptions): TinkletCallOptions {
  const own = (options.providerOptions?.[metadataName] ?? {}) as TinkletCallOptions;
  checkOptions("providerOptions.tinklet", own, callOptionNames, "providerOptions.tinklet");
  if (own.constrain !== undefined && typeof own.constrain !== "boolean") {
    throw new InvalidInputError("providerOptions.tinklet.constrain", "must be true or false");
  }
  return own;
}

function readVariables(
  options: LanguageModelV3CallOptions,
  { templateVariables = {} }: TinkletCallOptions,
): Readonly<Record<string, unknown>> {
  if (typeof templateVariables !== "object" || templateVariables === null || Array.isArray(templateVariables)) {
    throw new InvalidInputError("providerOptions.tinklet.templateVariables", "must be an object");
  }
  // A setting that came with AI SDK 7: the words are those that templates know.
  const { reasoning } = options as { readonly reasoning?: string };
  if (reasoning === undefined || reasoning === "provider-default") return templateVariables;
  const asked = reasoning === "none" ? { enable_thinking: false } : { reasoning_effort: reasoning };
  return { ...asked, ...templateVariables };
}
