/** `checkpoint download`: fetches a checkpoint's archive and unpacks it into a folder of its own. */
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { downloadFile, unpackTar } from "../download.ts";
import { CliError } from "../explain.ts";
import { portableName } from "../files.ts";
import { formatSize } from "../format.ts";
import { referenceHelp } from "../references.ts";
import { resolved } from "./checkpoint.ts";

export const checkpointDownload: Command = {
  usage: "checkpoint download CHECKPOINT [--output FOLDER] [--force]",
  about: `Fetches a checkpoint and unpacks it into RUN_KIND_NAME: ${referenceHelp}.`,
  arguments: ["CHECKPOINT"],
  options: {
    output: { type: "string", short: "o", value: "FOLDER", about: "where the folder is made (default: here)" },
    force: { type: "boolean", about: "replace a folder that is already there" },
  },
  async run(input, context) {
    const { rest, path } = await resolved(input.positionals[0] ?? "", context);
    const parent = input.text("output") ?? process.cwd();
    const target = join(parent, portableName(path.replace("tinker://", "")));
    if (existsSync(target) && !input.flag("force")) {
      throw new CliError(`Target directory already exists: ${target}`, {
        hint: "Use --force to overwrite or choose a different output directory.",
      });
    }
    await mkdir(parent, { recursive: true });
    const { url } = await rest.getCheckpointArchiveUrlFromTinkerPath(path, { signal: context.signal });
    const bytes = await fetchInto(url, target, parent, context);
    context.output.result({
      title: `Checkpoint Download: ${path}`,
      columns: ["Property", "Value"],
      rows: [
        ["Checkpoint Path", path],
        ...(bytes > 0 ? [["Archive Size", formatSize(bytes)]] : []),
        ["Extracted to", target],
      ],
      json: { checkpoint_path: path, destination: target, ...(bytes > 0 ? { file_size_bytes: bytes } : {}) },
    });
  },
};

/** Unpacks beside the target and moves it there: a download that breaks off leaves nothing half done. */
export async function fetchInto(url: string, target: string, parent: string, context: Context): Promise<number> {
  const scratch = await mkdtemp(join(parent, ".tinklet-"));
  try {
    const bytes = await downloadFile(url, join(scratch, "archive.tar"), "archive", context);
    await unpackTar(join(scratch, "archive.tar"), join(scratch, "files"));
    // What was there before goes only when the new folder is in its place.
    if (existsSync(target)) await rename(target, join(scratch, "before"));
    await rename(join(scratch, "files"), target).catch(async (cause) => {
      if (existsSync(join(scratch, "before"))) await rename(join(scratch, "before"), target);
      throw cause;
    });
    return bytes;
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}
