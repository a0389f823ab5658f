/**
 * Converts the settings of a call to sampling parameters. Settings that the Tinker API does not support become warnings, as the AI SDK's
 * specification requires.
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
  /** Additional variables of the model's chat template, for example `{ enable_thinking: false }`. */
  readonly templateVariables?: Readonly<Record<string, unknown>>;
  /**
   * Whether a JSON response format constrains decoding, on servers that support it. `false` samples without the constraint, for example
   * for schemas with unsupported keywords. @defaultValue true
   */
  readonly constrain?: boolean;
}
const callOptionNames: OptionNames<TinkletCallOptions> = { templateVariables: true, constrain: true };

/** The validated settings of a call. */
export interface CallSettings {
  readonly params: SamplingParamsInput;
  /** Stop strings, in addition to the model's end-of-turn tokens. */
  readonly stop: readonly string[];
  /** The JSON schema or format that constrains decoding. */
  readonly constraint: SampleConstraint | undefined;
  readonly tools: readonly ChatTool[];
  readonly variables: Readonly<Record<string, unknown>>;
  readonly warnings: SharedV3Warning[];
}

/** The model that is called. */
export interface CalledModel {
  readonly chat: Chat;
  readonly tokenizer: Tokenizer;
  /** Whether the server supports constrained decoding. */
  readonly canConstrain: boolean;
}

/** @throws InvalidInputError for unknown or invalid options in `providerOptions.tinklet`. */
export function readCall(
  options: LanguageModelV3CallOptions,
  { chat, tokenizer, canConstrain }: CalledModel,
): CallSettings {
  const warnings: SharedV3Warning[] = [];
  const unsupported = (feature: string, details: string) => warnings.push({ type: "unsupported", feature, details });
  for (const feature of ["presencePenalty", "frequencyPenalty"] as const) {
    if (options[feature]) unsupported(feature, "The Tinker API has no such parameter; it is ignored.");
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
      unsupported(
        "responseFormat",
        `${why} The reply may not be valid JSON: ask for JSON in the prompt and validate the reply.`,
      );
  }
  // A constrained reply ends when its format is complete; an empty stop list would disable every other end.
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

/** The reason why decoding is not constrained; undefined if it is. */
function unboundBecause(call: {
  readonly tools: readonly ChatTool[];
  readonly canConstrain: boolean;
  readonly isWanted: boolean;
}): string | undefined {
  if (!call.isWanted) return "providerOptions.tinklet.constrain is false.";
  if (!call.canConstrain) return "The server does not support constrained decoding.";
  return call.tools.length > 0 ? "Constrained decoding cannot be combined with tools." : undefined;
}

const constraintOf = (schema: unknown): SampleConstraint =>
  schema === undefined ? { type: "json_object" } : { type: "json_schema", schema: schema as JsonObject };

/** The stop sequences: token ids if the call has no stop strings, else strings. The API does not accept a mix of both. */
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
    unsupported("toolChoice", `Tool calls cannot be forced; "auto" is used.`);
  }
  const chosen = toolChoice?.type === "tool" ? toolChoice.toolName : undefined;
  return tools.flatMap((tool) => {
    if (isProviderTool(tool)) {
      unsupported(`provider tool ${tool.id}`, "Only function tools are supported.");
      return [];
    }
    if (chosen !== undefined && tool.name !== chosen) return [];
    if (tool.strict) unsupported(`strict mode of tool ${tool.name}`, "Arguments are not constrained to the schema.");
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
  // Added by AI SDK 7. Its values are those of the templates' `reasoning_effort`.
  const { reasoning } = options as { readonly reasoning?: string };
  if (reasoning === undefined || reasoning === "provider-default") return templateVariables;
  const asked = reasoning === "none" ? { enable_thinking: false } : { reasoning_effort: reasoning };
  return { ...asked, ...templateVariables };
}
