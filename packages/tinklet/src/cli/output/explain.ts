/** Converts errors to messages: the official tool's headline, the server's message and a hint, without a stack. */
import {
  APIConnectionError,
  APIError,
  APIStatusError,
  APITimeoutError,
  type ApiName,
  type Hint,
  hintText,
  InternalServerError,
  InvalidInputError,
  TinkerError,
} from "@tinklet/wire/errors";
import type { Command } from "../command.ts";
import { type Input, UsageError } from "../parse.ts";
import type { Explained } from "./output.ts";

const headlines: Readonly<Record<number, string>> = {
  400: "Invalid request",
  401: "Authentication failed",
  402: "Billing issue",
  403: "Permission denied",
  404: "Resource not found",
  422: "Invalid data provided",
  429: "Rate limit exceeded",
};

/** An error of the command line itself. */
export class CliError extends TinkerError {
  override readonly name = "CliError";
  constructor(message: string, options: { readonly hint?: Hint | undefined; readonly cause?: unknown } = {}) {
    super(message, { code: "cli", ...options });
  }
}

export function explain(error: unknown): Explained {
  if (!(error instanceof Error)) return { message: `Unexpected error occurred: ${String(error)}` };
  const { hint = "" } = error as Partial<TinkerError>;
  const shown = hintOf(error);
  const hints = shown === undefined ? [] : [`Hint: ${shown}`];
  // Some messages end with their hint; it is printed once, on its own line.
  const message = error.message.endsWith(hint)
    ? error.message.slice(0, -hint.length || undefined).trimEnd()
    : error.message;
  // No option of a command has this name, so it was set in the environment.
  const isBaseUrl = error instanceof InvalidInputError && error.field === "baseUrl";
  const said = isBaseUrl ? `TINKER_BASE_URL: ${error.problem}` : message;
  const headline = headlineOf(error);
  if (headline !== undefined) return { message: headline, details: [`Details: ${said}`, ...hints] };
  // Errors of other copies of the SDK (another bundle) have the same fields but not the same class.
  if (error instanceof TinkerError || "code" in error) {
    return { message: said, details: [...hints, ...missingPackage(error)] };
  }
  return {
    message: `Unexpected error occurred: ${error.message}`,
    details: process.env["TINKLET_DEBUG"] ? [error.stack ?? ""] : ["Set TINKLET_DEBUG=1 to see the stack."],
  };
}

/** The command line's names of the options and functions that hints of the packages name. */
const namesHere: Readonly<Record<ApiName, string>> = {
  apiKey: "--api-key-file",
  apiKeys: "--api-keys",
  baseModel: "--base",
  baseUrl: "--base-url",
  dataDir: "--data-dir",
  folder: "--out",
  from: "--from",
  maxTokens: "--max-tokens",
  weightsAccessToken: "an access token (in a program)", // no command has it
  "getServerCapabilities()": "npx tinklet doctor",
  listCheckpoints: "npx tinklet checkpoint list",
  saveState: "npx tinklet train",
  saveWeightsForSampler: "npx tinklet train",
  "ServiceClient.local()": "--local",
};

/** A hint with the names of commands and options of the command line. */
export const commandHint = (hint: Hint): string => hintText(hint, (name) => namesHere[name]);

/** The hint of an error of any package: errors of models and engine have a sentence only. */
function hintOf(error: Partial<TinkerError>): string | undefined {
  return error.hint === undefined ? undefined : commandHint(error.hintParts ?? error.hint);
}

/** Converts an `InvalidInputError` about a field into a usage error if an option or argument of that name was given. */
export function wrongCall(error: unknown, command: Command, input: Input): UsageError | undefined {
  if (!(error instanceof InvalidInputError)) return undefined;
  const name = (error.field.split(".").at(-1) ?? "").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const said = error.problem;
  const hint = hintOf(error);
  if (input.text(name) !== undefined) return new UsageError(`--${name} ${said}`, hint);
  const argument = name.toUpperCase().replaceAll("-", "_");
  return command.arguments?.includes(argument) ? new UsageError(`${argument} ${said}`, hint) : undefined;
}

function headlineOf(error: Error): string | undefined {
  if (error instanceof APITimeoutError) return "Request timeout";
  if (error instanceof APIConnectionError) return "Connection failed";
  if (error instanceof InternalServerError) return "Internal server error";
  if (error instanceof APIStatusError) return headlines[error.status] ?? `API error (status ${error.status})`;
  if (error instanceof APIError) return "API error occurred";
  if (error instanceof InvalidInputError) return undefined;
  return undefined;
}

function missingPackage(error: Error): readonly string[] {
  if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") return [];
  const name = /package '([^']+)'/.exec(error.message)?.[1];
  return name === undefined ? [] : [`Hint: npm install ${name}`];
}
