/**
 * Conversations with one model: renders prompts with the model's chat template and tools, and parses replies. The model family is
 * detected from the template's output, so no list of model names is needed.
 */
import type { Tokenizer } from "../tokenizer/types.ts";
import { forTemplate } from "./conversation.ts";
import { deepseekFormat } from "./formats/deepseek.ts";
import { glmFormat } from "./formats/glm.ts";
import { harmonyFormat } from "./formats/harmony.ts";
import { hermesFormat } from "./formats/hermes.ts";
import { jsonFormat, withToolsAsText } from "./formats/json.ts";
import { kimiFormat } from "./formats/kimi.ts";
import { llama3Format } from "./formats/llama3.ts";
import { mistralFormat } from "./formats/mistral.ts";
import type { ReplyFormat, TemplateProbe } from "./reply-format.ts";
import { createReplyReader, type ReplyReader, replyOf } from "./reply-reader.ts";
import type { ChatMessage, ChatTool, Reply } from "./types.ts";

/** The known families, in the order in which they are tried. The last one, plain JSON, accepts every template. */
export const replyFormats: readonly ReplyFormat[] = [
  harmonyFormat,
  deepseekFormat,
  kimiFormat,
  glmFormat,
  hermesFormat,
  mistralFormat,
  llama3Format,
  jsonFormat,
];

/** Detected properties of a template: {@link Chat.traits}. */
export interface ChatTraits {
  /** {@link ReplyFormat.name} of the family. */
  readonly format: string;
  readonly templateReadsTools: boolean;
  readonly endTokenIds: readonly number[];
}

export interface ChatOptions {
  /**
   * Traits from another `Chat` of the same model; detection is skipped.
   * @defaultValue detected by rendering a few conversations
   */
  readonly traits?: ChatTraits;
  /**
   * Families to choose from; the first one that recognises the template is used.
   * @defaultValue {@link replyFormats}
   */
  readonly formats?: readonly ReplyFormat[];
}

export interface RenderChatOptions {
  /** Tools that the model may call. */
  readonly tools?: readonly ChatTool[];
  /** Additional template variables, for example `enable_thinking`. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** End with the header of the assistant's turn; `false` renders a finished conversation, for training. @defaultValue `true` */
  readonly addGenerationPrompt?: boolean;
}

/** A conversation rendered as a prompt. */
export interface RenderedChat {
  readonly text: string;
  /** Tools that the reply may call. */
  readonly tools: readonly ChatTool[];
  /** Whether the prompt ends inside the model's reasoning. */
  readonly startsInReasoning: boolean;
}

export interface ReadChatOptions {
  /** Stop strings, in addition to the model's end tokens. */
  readonly stop?: readonly string[];
}

/** Conversations with one model. */
export interface Chat {
  /** The reply format of the model's family. */
  readonly format: ReplyFormat;
  /** Whether the template renders tools. If not, tools are described in the system message. */
  readonly templateReadsTools: boolean;
  /** Ids that end a reply: the tokenizer's EOS ids and the token with which the template ends a turn. */
  readonly endTokenIds: readonly number[];
  /** The three properties above as plain data, to send to another thread. */
  readonly traits: ChatTraits;
  /** Renders the prompt for the next reply. @throws TokenizerError if the template raises an error */
  render(messages: readonly ChatMessage[], options?: RenderChatOptions): RenderedChat;
  /** Encodes the prompt as token ids. */
  encode(rendered: RenderedChat): number[];
  /** Parses a reply token by token. */
  read(rendered: RenderedChat, options?: ReadChatOptions): ReplyReader;
  /** Parses a complete reply. */
  parse(ids: Iterable<number>, rendered: RenderedChat, options?: ReadChatOptions): Reply;
}

/**
 * Creates the `Chat` of a model from its tokenizer.
 *
 * @example
 * ```ts
 * const chat = createChat(tokenizer);
 * const prompt = chat.render([{ role: "user", content: "How warm is it in Oslo?" }], { tools: [weather] });
 * const reader = chat.read(prompt, { stop: ["\n\n"] });
 * for (const id of ids) for (const event of reader.push(id)) console.log(event);
 * ```
 */
export function createChat(tokenizer: Tokenizer, options: ChatOptions = {}): Chat {
  const formats = options.formats ?? replyFormats;
  const traits = options.traits ?? probeTraits(tokenizer, formats);
  const { templateReadsTools, endTokenIds } = traits;
  const format = formats.find(({ name }) => name === traits.format) ?? jsonFormat;

  const read: Chat["read"] = ({ tools, startsInReasoning }, { stop = [] } = {}) =>
    createReplyReader({
      tokenizer,
      parser: format.createParser({ tools, startsInReasoning }),
      markers: format.markers,
      endTokenIds,
      stop,
    });
  return {
    format,
    templateReadsTools,
    endTokenIds,
    traits,
    render(messages, { tools = [], variables = {}, addGenerationPrompt = true } = {}) {
      const ready = forTemplate(messages, format);
      const isPlain = !templateReadsTools && (tools.length > 0 || ready.some(hasTools));
      const text = tokenizer.applyChatTemplate(isPlain ? withToolsAsText(ready, tools) : ready, {
        tokenize: false,
        addGenerationPrompt,
        variables,
        ...(tools.length > 0 && templateReadsTools ? { tools } : {}),
      });
      const opens = format.reasoningOpens;
      return { text, tools, startsInReasoning: opens !== undefined && text.trimEnd().endsWith(opens) };
    },
    encode: ({ text }) => tokenizer.encode(text, { addSpecialTokens: false }),
    read,
    parse(ids, rendered, readOptions) {
      const reader = read(rendered, readOptions);
      return replyOf([...Array.from(ids, (id) => reader.push(id)), reader.end()].flat());
    },
  };
}

const hasTools = ({ role, tool_calls }: ChatMessage): boolean => role === "tool" || tool_calls !== undefined;

const probeTool: ChatTool = {
  type: "function",
  function: {
    name: "probe_tool",
    description: "A probe.",
    parameters: { type: "object", properties: { probe_argument: { type: "integer", description: "A number." } } },
  },
};

/** Detects a template's traits by rendering probe conversations. */
function probeTraits(tokenizer: Tokenizer, formats: readonly ReplyFormat[]): ChatTraits {
  const probe = probeTemplate(tokenizer);
  const templateReadsTools = probe.withTool?.includes(probeTool.function.name) === true;
  const format = (templateReadsTools ? formats.find((each) => each.isUsedBy(probe)) : undefined) ?? jsonFormat;
  const endTokenIds = [...new Set([...tokenizer.eosTokenIds, ...turnEnds(tokenizer)])];
  return { format: format.name, templateReadsTools, endTokenIds };
}

/** Renders conversations with and without a tool. */
function probeTemplate(tokenizer: Tokenizer): TemplateProbe {
  const attempt = (messages: readonly ChatMessage[], tools?: readonly ChatTool[]): string | undefined => {
    try {
      return tokenizer.applyChatTemplate(messages, {
        tokenize: false,
        addGenerationPrompt: true,
        ...(tools === undefined ? {} : { tools }),
      });
    } catch {
      return undefined;
    }
  };
  const question = { role: "user", content: "probe" };
  const call = { name: "probe_tool", arguments: { probe_argument: 1 } };
  const called = [
    question,
    { role: "assistant", content: "", tool_calls: [{ id: "probe0000", type: "function", function: call }] },
    { role: "tool", name: "probe_tool", tool_call_id: "probe0000", content: "2" },
  ];
  return {
    plain: attempt([question]),
    withTool: attempt([question], [probeTool]),
    withCall: attempt(called, [probeTool]),
    hasToken: (token) => tokenizer.tokenToId(token) !== undefined,
  };
}

/** The special token that the template writes after an answer. Not every model lists it among its EOS ids. */
function turnEnds(tokenizer: Tokenizer): number[] {
  const answer = "an answer of the probe";
  const messages = [
    { role: "user", content: "probe" },
    { role: "assistant", content: answer },
  ];
  try {
    const text = tokenizer.applyChatTemplate(messages, { tokenize: false });
    const after = text.slice(text.lastIndexOf(answer) + answer.length).trimStart();
    const [first] = tokenizer.encode(after, { addSpecialTokens: false });
    return first !== undefined && tokenizer.isSpecial(first) ? [first] : [];
  } catch {
    return [];
  }
}
