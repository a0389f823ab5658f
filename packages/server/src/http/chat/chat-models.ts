/**
 * Tokenizers of the served models, made once and kept: at the start, because a large one takes a second of this thread. Chat templates are
 * never run here: what they are is told by the thread that runs them.
 */
import { ModelError } from "@tinklet/models";
import { type Chat, type ChatTraits, createChat } from "@tinklet/models/chat";
import { type Tokenizer, type TokenizerFiles, tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { Refusal } from "../../queue/refusal.ts";
import type { Api, ServedModel } from "../api.ts";

export interface ChatModel {
  readonly tokenizer: Tokenizer;
  /** How replies are read. */
  readonly chatOf: (traits: ChatTraits) => Chat;
  /** What they are made of. */
  readonly files: TokenizerFiles;
}

/** Finds a model's tokenizer and chat template. */
export type FindChatModel = (served: ServedModel) => Promise<ChatModel>;

/** @returns a function that finds a model's tokenizer; it throws {@link Refusal} 400 where the model has none. */
export function createChatModels(api: Pick<Api, "log">): FindChatModel {
  const made = new Map<string, Promise<ChatModel>>();
  const make = async (served: ServedModel): Promise<ChatModel> => {
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
    let known = made.get(served.name);
    if (known === undefined) {
      known = make(served).catch((error: unknown) => {
        made.delete(served.name);
        if (!(error instanceof ModelError)) throw error;
        api.log.warn("tokenizer.failed", { model: served.name, error: error.message });
        throw noTokenizer(served.name);
      });
      made.set(served.name, known);
    }
    return known;
  };
}

const noTokenizer = (name: string): Refusal =>
  new Refusal(400, "no_tokenizer", `The model ${name} has no tokenizer, so that it cannot read text.`, {
    param: "model",
  });
