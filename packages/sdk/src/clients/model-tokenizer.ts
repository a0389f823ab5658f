/** The tokenizer of a server's model: downloaded from the server if it is a Tinklet server, else found by the model's name. */
import { NotFoundError } from "@tinklet/wire/errors";
import type { Tokenizer } from "../tokenizer/index.ts";
import type { CallOptions } from "../transport/transport.ts";
import type { Session } from "./session/session.ts";

/** The names of a model. */
interface NamedModel {
  readonly modelName: string;
  /** The tokenizer's name on the Hugging Face Hub, as reported by the server. */
  readonly tokenizerId?: string | undefined;
}

/** Tokenizers downloaded from servers, by session and model. */
const handedOut = new WeakMap<Session, Map<string, Tokenizer>>();

/** @throws {@link TokenizerError} when the tokenizer cannot be found, downloaded or read. */
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
      if (!(error instanceof NotFoundError)) throw error; // not available from the server: try the model's name
    }
  }
  const { tokenizerForModel } = await import("../tokenizer/index.ts");
  return tokenizerForModel(model);
}
