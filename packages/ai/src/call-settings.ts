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
import { InvalidInputError, type SamplingParamsInput } from "tinklet";
import { checkOptions, given, type OptionNames } from "tinklet/wire";
import { metadataName } from "./token-record.ts";

/** Options of a call under `providerOptions.tinklet`. */
export interface TinkletCallOptions {
  /** Further variables of the model's chat template, for example `{ enable_thinking: false }`. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
}
const callOptionNames: OptionNames<TinkletCallOptions> = { templateVariables: true };

/** A call, read. */
export interface CallSettings {
  readonly params: SamplingParamsInput;
  /** Texts that end the reply, besides the model's own tokens. */
  readonly stop: readonly string[];
  readonly tools: readonly ChatTool[];
  readonly variables: Readonly<Record<string, unknown>>;
  readonly warnings: SharedV3Warning[];
}

/** @throws InvalidInputError for options of `providerOptions.tinklet` that there are none of. */
export function readCall(options: LanguageModelV3CallOptions, chat: Chat, tokenizer: Tokenizer): CallSettings {
  const warnings: SharedV3Warning[] = [];
  const unsupported = (feature: string, details: string) => warnings.push({ type: "unsupported", feature, details });
  for (const feature of ["presencePenalty", "frequencyPenalty"] as const) {
    if (options[feature]) unsupported(feature, "The Tinker API has no such parameter; nothing is penalised.");
  }
  if (options.responseFormat?.type === "json") {
    unsupported("responseFormat", "The reply is not bound to JSON. Ask for it in the prompt, and check it.");
  }
  const { maxOutputTokens: maxTokens, temperature, topP, topK, seed, stopSequences: stop = [] } = options;
  return {
    params: { ...given({ maxTokens, temperature, topP, topK, seed }), stop: stopsOf(stop, chat, tokenizer) },
    stop,
    tools: readTools(options, unsupported),
    variables: readVariables(options),
    warnings,
  };
}

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
    return [{ type: "function" as const, function: { name, ...given({ description }), parameters } }];
  });
}

const isProviderTool = (
  tool: LanguageModelV3FunctionTool | LanguageModelV3ProviderTool,
): tool is LanguageModelV3ProviderTool => tool.type === "provider";

function readVariables(options: LanguageModelV3CallOptions): Readonly<Record<string, unknown>> {
  const own = (options.providerOptions?.[metadataName] ?? {}) as TinkletCallOptions;
  checkOptions("providerOptions.tinklet", own, callOptionNames, "providerOptions.tinklet");
  const { templateVariables = {} } = own;
  if (typeof templateVariables !== "object" || templateVariables === null || Array.isArray(templateVariables)) {
    throw new InvalidInputError("providerOptions.tinklet.templateVariables", "must be an object");
  }
  // A setting that came with AI SDK 7: the words are those that templates know.
  const { reasoning } = options as { readonly reasoning?: string };
  if (reasoning === undefined || reasoning === "provider-default") return templateVariables;
  const asked = reasoning === "none" ? { enable_thinking: false } : { reasoning_effort: reasoning };
  return { ...asked, ...templateVariables };
}
