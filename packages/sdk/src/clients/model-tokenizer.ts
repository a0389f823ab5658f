/** The tokenizer of a model that a server offers: handed out by the server where it can do that, else found by the model's name. */
import { NotFoundError } from "@tinklet/wire/errors";
import type { Tokenizer } from "../tokenizer/index.ts";
import type { CallOptions } from "../transport/transport.ts";
import type { Session } from "./session/session.ts";

/** What is known of the model. */
interface NamedModel {
  readonly modelName: string;
  /** What the server says the tokenizer is called on the Hub. */
  readonly tokenizerId?: string | undefined;
}

/** Tokenizers that servers handed out: one for each model of a connection. */
const handedOut = new WeakMap<Session, Map<string, Tokenizer>>();

/** @throws {@link TokenizerError} saying what is missing and what to do. */
export async function modelTokenizer(
  session: Session,
  model: NamedModel,
  options: CallOptions = {},
): Promise<Tokenizer> {
  const { tinkletExtensions } = await session.connect();
  const known = handedOut.get(session)?.get(model.modelName);
  if (known !== undefined) return known;
  if (tinkletExtensions?.includes("tokenizer")) {
    try {
      const { files } = await session.call("getTokenizerFiles", { model: model.modelName }, options);
      const { tokenizerOfFiles } = await import("../tokenizer/load.ts");
      const tokenizer = await tokenizerOfFiles({ "tokenizer.json": "", ...files }, model.modelName);
      const kept = handedOut.get(session) ?? new Map<string, Tokenizer>();
      handedOut.set(session, kept.set(model.modelName, tokenizer));
      return tokenizer;
    } catch (error) {
      if (!(error instanceof NotFoundError)) throw error; // it has none for this model: the name may lead to one
    }
  }
  const { tokenizerForModel } = await import("../tokenizer/index.ts");
  return tokenizerForModel(model);
}
