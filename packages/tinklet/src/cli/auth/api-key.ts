/** The key of `--api-key-file`: a command line is visible to every user of the machine, a file or a pipe is not. */
import { createReadStream } from "node:fs";
import { type Input, UsageError } from "../parse.ts";

/** A key has some hundred characters, a token some thousand. */
const longestBytes = 65_536;

/** The arguments with the key in them, wherever it comes from. @throws {@link UsageError} when there is none in the file. */
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
