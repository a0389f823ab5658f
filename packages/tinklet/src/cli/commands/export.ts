/** `export`: writes a checkpoint for other programs. */

import {
  checkExport,
  checkpointFormats,
  type ExportedCheckpoint,
  exportAdapter,
  exportCheckpoint,
} from "@tinklet/sdk/files";
import { omitUndefined } from "@tinklet/wire/options";
import { isAdapterFolder } from "../checkpoint/adapter-folder.ts";
import { showProgress } from "../checkpoint/download.ts";
import { fetchingOf } from "../checkpoint/fetch-checkpoint.ts";
import type { Command } from "../command.ts";
import type { Context } from "../context.ts";
import { portableName } from "../files.ts";
import { formatSize } from "../output/format.ts";
import { UsageError } from "../parse.ts";
import { referenceHelp } from "../references.ts";
import { resolved } from "./checkpoint.ts";

export const exportCommand: Command = {
  usage: "export CHECKPOINT --format peft|tinker|merged|gguf [--dtype TYPE] [--out PATH] [--base MODEL]",
  about: `Writes a checkpoint for other programs: the adapter alone (peft for PEFT and vLLM, tinker for build_hf_model of the official cookbook), or merged into its base model, as a folder for transformers or as a GGUF file for llama.cpp. CHECKPOINT is an adapter folder, ${referenceHelp}.`,
  arguments: ["CHECKPOINT"],
  options: {
    format: {
      type: "string",
      short: "f",
      choices: checkpointFormats,
      about: "the adapter (two forms), a merged folder, or a merged GGUF file",
    },
    json: { type: "boolean", about: "print the result as JSON" },
    dtype: {
      type: "string",
      choices: ["base", "f32", "f16", "bf16", "q8_0"],
      about: "number format of merged (default: that of the base model) and gguf (default f16; not base)",
    },
    out: {
      type: "string",
      short: "o",
      value: "PATH",
      about: "the file (gguf) or folder to write (default: RUN_KIND_NAME in the current folder)",
    },
    base: {
      type: "string",
      value: "MODEL",
      about: "the base model: a folder, a .gguf file, or a Hub name (default: the server's name for it)",
    },
  },
  examples: [
    "export @latest --local --format gguf --dtype q8_0 --out pirate.gguf",
    "export runs/sft --format merged --out models/sft",
  ],
  async run(input, context) {
    const format = input.text("format") as (typeof checkpointFormats)[number] | undefined;
    if (format === undefined) throw new UsageError(`--format is missing: one of ${checkpointFormats.join(", ")}`);
    const [reference = ""] = input.positionals;
    const { output, signal } = context;
    const how = {
      format,
      signal,
      dtype: input.text("dtype"),
      baseModel: input.text("base"),
      onDownload: showProgress(context),
      onTensor: ({ tensor, done, total }: { tensor: string; done: number; total: number }) =>
        output.progress(`Writing ${tensor === "" ? "the file" : tensor} (${Math.floor((100 * done) / total)} %)`),
    };
    const asked = input.text("out");
    if (asked !== undefined) await checkExport(how, asked);
    const written = await writtenFrom(reference, { context, how, asked }).finally(() => output.endProgress());
    const { source, result } = written;
    for (const note of result.notes) output.note(`Note: ${note}.`);
    output.result({
      title: `Export: ${source}`,
      columns: ["Property", "Value"],
      rows: [
        ["Checkpoint", source],
        ["Format", [format, how.dtype].filter(Boolean).join(" ")],
        ["Size", formatSize(result.bytes)],
        ["Written to", result.path],
      ],
      json: {
        checkpoint_path: source,
        format,
        ...omitUndefined({ dtype: how.dtype }),
        destination: result.path,
        size_bytes: result.bytes,
        notes: result.notes,
      },
    });
  },
};

interface Asked {
  readonly context: Context;
  readonly how: Parameters<typeof exportAdapter>[2];
  readonly asked: string | undefined;
}

/** Exports a checkpoint, or an adapter folder, which needs no server. */
async function writtenFrom(
  reference: string,
  { context, how, asked }: Asked,
): Promise<{ source: string; result: ExportedCheckpoint }> {
  const ending = how.format === "gguf" ? ".gguf" : "";
  if (isAdapterFolder(reference)) {
    const out = asked ?? `${portableName(reference)}-${how.format}${ending}`;
    return { source: reference, result: await exportAdapter(reference, out, how) };
  }
  const { rest, path } = await resolved(reference, context);
  const out = asked ?? `${portableName(path.replace("tinker://", ""))}${how.format === "merged" ? "-merged" : ending}`;
  const result = await exportCheckpoint(path, out, { ...how, ...fetchingOf(context, rest) });
  return { source: path, result };
}
