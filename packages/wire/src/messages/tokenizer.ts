/**
 * The files of a model's tokenizer. A Tinklet extension, with which a client needs neither the model's folder nor the Hub. A client
 * requests them only from servers that list `tokenizer` in the `tinklet_extensions` of `client/config`.
 */
import { map, string } from "../schema/fields.ts";
import { message } from "../schema/message.ts";

/** Selects a model. */
export interface TokenizerFilesQuery {
  /** The base model's name on the server. */
  readonly model: string;
}
export const TokenizerFilesQuery = message<TokenizerFilesQuery>("TokenizerFilesQuery", { model: string() });

/** The contents of `tokenizer.json` and of its configuration files. */
export interface TokenizerFilesResponse {
  /** By file name; a file that the model does not have is absent. */
  readonly files: Readonly<Record<string, string>>;
}
export const TokenizerFilesResponse = message<TokenizerFilesResponse>("TokenizerFilesResponse", {
  files: map(string()),
});
