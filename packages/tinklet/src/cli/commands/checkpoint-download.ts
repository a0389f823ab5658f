/** `checkpoint download`: downloads a checkpoint into a new folder. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { fetchCheckpoint } from "../checkpoint/fetch-checkpoint.ts";
import type { Command } from "../command.ts";
import { portableName } from "../files.ts";
import { CliError } from "../output/explain.ts";
import { formatSize } from "../output/format.ts";
import { referenceHelp } from "../references.ts";
import { resolved } from "./checkpoint.ts";

export const checkpointDownload: Command = {
  usage: "checkpoint download CHECKPOINT [--output FOLDER] [--force]",
  about: `Downloads a checkpoint and unpacks it into the folder RUN_KIND_NAME: ${referenceHelp}.`,
  arguments: ["CHECKPOINT"],
  options: {
    output: { type: "string", short: "o", value: "FOLDER", about: "parent folder (default: the current one)" },
    force: { type: "boolean", about: "replace an earlier download; other files are never replaced" },
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
    const bytes = await fetchCheckpoint(path, target, parent, context, rest);
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
