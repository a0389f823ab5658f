/** Converts errors to messages: the official tool's headline, the server's message and a hint, without a stack. */
import {
  APIConnectionError,
  APIError,
  APIStatusError,
  APITimeoutError,
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
  constructor(message: string, options: { readonly hint?: string; readonly cause?: unknown } = {}) {
    super(message, { code: "cli", ...options });
  }
}

export function explain(error: unknown): Explained {
  if (!(error instanceof Error)) return { message: `Unexpected error occurred: ${String(error)}` };
  const hint = (error as Partial<TinkerError>).hint;
  const hints = hint === undefined ? [] : [`Hint: ${inCommands(hint)}`];
  // Some messages end with their hint; it is printed once, on its own line.
  const own =
    hint !== undefined && error.message.endsWith(hint) ? error.message.slice(0, -hint.length).trimEnd() : error.message;
  const said = inCommands(own);
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

/** Names of SDK functions and options in messages, and the command or option of the command line for each. */
const commandsFor: readonly (readonly [RegExp, string])[] = [
  // Messages for both name the option of the command line first, then the program's: (--data-dir, dataDir).
  [/\((--[\w-]+), [a-z][A-Za-z]*\)/g, "($1)"],
  [/TINKER_API_KEY or apiKey\b/, "TINKER_API_KEY or --api-key-file"],
  [/TINKER_API_KEY or pass apiKey\b/, "TINKER_API_KEY or give --api-key-file"],
  [/use ServiceClient\.local\(\)/, "add --local"],
  [/\(baseUrl, TINKER_BASE_URL\)/g, "(--base-url, TINKER_BASE_URL)"],
  [
    /expired \(those in the middle of a run are kept for 7 days, or ttlSeconds\)/,
    "expired (those in the middle of a run are kept for 7 days)",
  ],
  [/data folder that has it \(dataDir\)/, "data folder that has it (--data-dir)"],
  [/train from the start in another folder/, "train from the start in another folder (--out)"],
  [/with its weights \(from: "([^"]+)"\) or without/, "with its weights (--from $1) or without"],
  [/^baseUrl: /, "TINKER_BASE_URL: "], // the option of that name is a wrong call
  [/Use a Tinklet server: ServiceClient\.local\(\), or/, "Use a Tinklet server: --local, or"],
  [
    /For another account's weights, pass weightsAccessToken, or ask the owner to publish them/,
    "Another account's weights can be used after the owner has published them (tinklet checkpoint publish)",
  ],
  [/getServerCapabilities\(\) lists/, "tinklet doctor lists"],
  [
    /load one made by saveState \(tinker:\/\/…\/weights\/…\)/,
    "take its training half (tinker://…/weights/…), which tinklet train saves",
  ],
  [
    /to sample, save with saveWeightsForSampler \(tinker:\/\/…\/sampler_weights\/…\)/,
    "take its sampler half (tinker://…/sampler_weights/…), which tinklet train saves",
  ],
  [/expired \(ttlSeconds\)/, "expired"],
  [/listCheckpoints lists/, "tinklet checkpoint list lists"],
  [/lower maxTokens/, "lower --max-tokens"],
  [/maxTokens is/, "--max-tokens is"],
];

/** A message of the SDK with the names of commands and options of the command line. */
export function inCommands(message: string): string {
  return commandsFor.reduce((text, [sdk, command]) => text.replace(sdk, command), message);
}

/** Converts an `InvalidInputError` about a field into a usage error if an option or argument of that name was given. */
export function wrongCall(error: unknown, command: Command, input: Input): UsageError | undefined {
  if (!(error instanceof InvalidInputError)) return undefined;
  const name = (error.field.split(".").at(-1) ?? "").replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  const said = error.problem;
  const hint = error.hint === undefined ? undefined : inCommands(error.hint);
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
