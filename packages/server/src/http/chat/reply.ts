/** The generation of a reply to a conversation, for both APIs. */
import { type Chat, createReplyReader, type RenderedChat, type ReplyReader } from "@tinklet/models/chat";
import { omitUndefined } from "@tinklet/wire/options";
import type { ChatPrompt, Conversation } from "../../thread/chat-tasks.ts";
import { badField, unsupported } from "./fields.ts";
import type { Generation, StrictCalls } from "./generate.ts";
import type { NamedModel } from "./model-names.ts";
import type { PromptContext } from "./prompt.ts";
import type { ResponseFormat } from "./response-format.ts";
import { engineStops } from "./sampling.ts";
import {
  type CallGrammar,
  callGrammar,
  callReader,
  firstCallOnly,
  formatOrCallGrammar,
  type ToolUse,
} from "./tool-use.ts";

export interface Reply extends Pick<Generation, "params" | "n" | "top" | "format"> {
  readonly model: NamedModel;
  readonly context: PromptContext;
  readonly chatPrompt: ChatPrompt;
  /** Stop strings of the client. */
  readonly stop: readonly string[];
  readonly tools: ToolUse;
  /** The parameter that limits the tokens of the reply, for error messages. */
  readonly roomParam: string;
}

/** What the prompt has to say about tools. */
export function toolsOf({ offered, demanded }: ToolUse): Pick<Conversation, "tools" | "callFirst"> {
  const [first] = demanded;
  const callFirst = demanded.length === 1 ? { tool: first!.tool.function.name } : {};
  return { tools: offered.map(({ tool }) => tool), ...(first === undefined ? {} : { callFirst }) };
}

/** Creates the generation of a reply; the signal aborts when its client disconnects. */
export function generationOf(reply: Reply): (signal: AbortSignal) => Generation {
  const { model, context, chatPrompt, stop, tools, format, roomParam, params, n, top } = reply;
  const { rendered, prompt, traits } = chatPrompt;
  const { tokenizer } = context.model;
  const chat = context.model.chatOf(traits);
  const call = callGrammarOf({ tools, format, roomParam });
  const grammar = call?.format ?? format;
  if (grammar !== undefined) checkFormat(grammar, rendered);
  const endTokenIds = chat.endTokenIds;
  const strictCalls = grammar === undefined ? strictCallsOf(reply, chat) : undefined;
  const createReader = (): ReplyReader => {
    if (call !== undefined) return callReader(createReplyReader({ tokenizer, endTokenIds }), call.read);
    if (grammar !== undefined) return createReplyReader({ tokenizer, endTokenIds, stop });
    const reader = chat.read(rendered, { stop });
    return tools.parallel && strictCalls === undefined ? reader : firstCallOnly(reader);
  };
  return (signal) => ({
    params,
    n,
    ...omitUndefined({ top, strictCalls }),
    format: grammar,
    tenant: context.tenant,
    model,
    prompt,
    // A reply under a grammar ends with it. A stop string would cut a call off.
    stop: call !== undefined ? [] : grammar !== undefined ? stop : engineStops(stop, { tokenizer, chat }, model),
    createReader,
    signal,
  });
}

/** The grammar of a reply that must, or with a response format may, be a call. */
function callGrammarOf({
  tools,
  format,
  roomParam,
}: Pick<Reply, "tools" | "format" | "roomParam">): CallGrammar | undefined {
  const { offered, demanded } = tools;
  if (demanded.length > 0) return callGrammar(demanded, roomParam);
  if (format !== undefined && offered.length > 0) return formatOrCallGrammar(format, offered);
  return undefined;
}

/** Strict tools that a reply may call: their arguments are decoded again under the grammar of the schema. */
function strictCallsOf({ tools, context, chatPrompt, roomParam }: Reply, chat: Chat): StrictCalls | undefined {
  const strict = tools.offered.filter((each) => each.strict);
  if (strict.length === 0) return undefined;
  const { callOpening, name } = chat.format;
  if (callOpening === undefined) {
    const problem = `is not supported with tool_choice auto, because models of the ${name} family do not write calls as JSON`;
    throw unsupported(strict[0]!.strictParam, problem);
  }
  const { tokenizer } = context.model;
  const endTokenIds = chat.endTokenIds;
  return {
    of: (called, sampled) => {
      const tool = strict.find((each) => each.tool.function.name === called);
      if (tool === undefined) return undefined;
      const reply = tokenizer.decode(sampled, { skipSpecialTokens: false });
      const text = tokenizer.encode(reply.slice(0, callOpening.startIn(reply)), { addSpecialTokens: false });
      const opening = tokenizer.encode(callOpening.textOf(called), { addSpecialTokens: false });
      const { format, read } = callGrammar([tool], roomParam);
      return {
        prompt: Int32Array.from([...chatPrompt.prompt, ...text, ...opening]),
        textTokens: text.length,
        format,
        createReader: () => callReader(createReplyReader({ tokenizer, endTokenIds }), read),
      };
    },
  };
}

/** @throws {@link Refusal} 400 when the format would apply to the model's thinking */
function checkFormat({ param }: ResponseFormat, { startsInReasoning }: RenderedChat): void {
  if (!startsInReasoning) return;
  throw badField(
    param,
    "is not supported for thinking, with which this model's template begins every reply; turn thinking off in the request",
    "unsupported_value",
  );
}
