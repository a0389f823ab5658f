/**
 * A model's tokenizer as its files: a route of Tinklet's own, so that a client needs neither the model's folder nor the Hub. A server
 * that has it says so in `client/config` (`tinklet_extensions`); no other server is ever asked.
 */
import { map, string } from "../schema/fields.ts";
import { message } from "../schema/message.ts";

/** Which model's tokenizer. */
export interface TokenizerFilesQuery {
  /** The base model's name, as the server calls it. */
  readonly model: string;
}
export const TokenizerFilesQuery = message<TokenizerFilesQuery>("TokenizerFilesQuery", { model: string() });

/** The contents of `tokenizer.json` and of the settings beside it. */
export interface TokenizerFilesResponse {
  /** By file name; a file that the model does not have is absent. */
  readonly files: Readonly<Record<string, string>>;
}
export const TokenizerFilesResponse = message<TokenizerFilesResponse>("TokenizerFilesResponse", {
  files: map(string()),
});
