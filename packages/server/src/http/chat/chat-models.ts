/**
 * Tokenizers of the served models, opened once, at the start, because a large one blocks this thread for a second. Chat templates run in
 * another thread, which also determines the traits by which replies are parsed.
 */
import { ModelError } from "@tinklet/models";
import { type Chat, type ChatTraits, createChat } from "@tinklet/models/chat";
import { type Tokenizer, type TokenizerFiles, tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { Refusal } from "../../queue/refusal.ts";
import type { Api, ServedModel } from "../api.ts";

export interface ChatModel {
  readonly tokenizer: Tokenizer;
  /** The parser of replies. */
  readonly chatOf: (traits: ChatTraits) => Chat;
  /** The files of the tokenizer and of the chat template. */
  readonly files: TokenizerFiles;
}

/** Finds a model's tokenizer. */
export type FindChatModel = (served: ServedModel) => Promise<ChatModel>;

/** @returns a function that finds a model's tokenizer. It throws {@link Refusal} 400 for a model without one. */
export function createChatModels(api: Pick<Api, "log">): FindChatModel {
  const opened = new Map<string, Promise<ChatModel>>();
  const open = async (served: ServedModel): Promise<ChatModel> => {
    const files = await served.tokenizerFiles?.();
    if (files === undefined) throw noTokenizer(served.name);
    const tokenizer = tokenizerFromFiles(files, served.name);
    let chat: Chat | undefined;
    const chatOf = (traits: ChatTraits) => {
      chat ??= createChat(tokenizer, { traits });
      return chat;
    };
    return { tokenizer, chatOf, files };
  };
  return (served) => {
    let found = opened.get(served.name);
    if (found === undefined) {
      found = open(served).catch((error: unknown) => {
        opened.delete(served.name);
        if (!(error instanceof ModelError)) throw error;
        api.log.warn("tokenizer.failed", { model: served.name, error: error.message });
        throw noTokenizer(served.name);
      });
      opened.set(served.name, found);
    }
    return found;
  };
}

const noTokenizer = (name: string): Refusal =>
  new Refusal(400, "no_tokenizer", `model: ${name} has no tokenizer, which text prompts need`, { param: "model" });
