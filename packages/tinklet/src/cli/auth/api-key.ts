/** Reads the key of `--api-key-file`. Every user of the machine can see a command line, but not a private file or a pipe. */
import { createReadStream } from "node:fs";
import { type Input, UsageError } from "../parse.ts";

/** Read limit; a key has about 100 characters, an access token a few thousand. */
const longestBytes = 65_536;

/** Replaces `--api-key-file` by `--api-key`. @throws {@link UsageError} when the file has no key */
export async function withApiKey(input: Input): Promise<Input> {
  const file = input.text("api-key-file");
  if (file === undefined) return input;
  if (input.text("api-key") !== undefined) throw new UsageError("--api-key and --api-key-file exclude each other");
  const key = (await firstBytes(file)).split(/\r?\n/, 1)[0]?.trim() ?? "";
  if (key !== "") return input.with("api-key", key);
  throw new UsageError(`--api-key-file: there is no key in the first line of ${file === "-" ? "the input" : file}`);
}

async function firstBytes(file: string): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const piece of file === "-" ? process.stdin : createReadStream(file)) {
      pieces.push(piece as Buffer);
      bytes += (piece as Buffer).length;
      if (bytes > longestBytes || (piece as Buffer).includes("\n")) break;
    }
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    throw new UsageError(`--api-key-file: ${code === "ENOENT" ? `there is no file ${file}` : message}`);
  }
  return Buffer.concat(pieces).toString("utf8");
}
