/** `checkpoint push-hf`: a checkpoint as a PEFT adapter on the Hugging Face Hub, with the official tool's rules for names. */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ParsedCheckpointTinkerPath, type WeightsInfoResponse } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { fetchCheckpoint } from "../checkpoint/fetch-checkpoint.ts";
import {
  chooseFiles,
  ensureRepo,
  hubFromEnvironment,
  hubUser,
  readRepoFile,
  uploadFiles,
} from "../checkpoint/hub-upload.ts";
import type { Command } from "../command.ts";
import { CliError } from "../output/explain.ts";
import { formatBool } from "../output/format.ts";
import { referenceHelp } from "../references.ts";
import { resolved } from "./checkpoint.ts";

export const checkpointPushHf: Command = {
  usage: "checkpoint push-hf CHECKPOINT [--repo NAME] [--public] [--revision BRANCH]",
  about: `Uploads a checkpoint to the Hugging Face Hub as a PEFT adapter: ${referenceHelp}.`,
  arguments: ["CHECKPOINT"],
  options: {
    repo: { type: "string", short: "r", value: "USER/NAME", about: "default: made from the run's names" },
    public: { type: "boolean", about: "make the repository public (default: private)" },
    revision: { type: "string", value: "BRANCH", about: "branch to upload to" },
    "commit-message": { type: "string", value: "TEXT", about: "message of the commit" },
    "create-pr": { type: "boolean", about: "open a pull request instead of pushing" },
    "allow-pattern": {
      type: "string",
      multiple: true,
      value: "GLOB",
      about: "upload only matching files (repeatable)",
    },
    "ignore-pattern": {
      type: "string",
      multiple: true,
      value: "GLOB",
      about: "do not upload matching files (repeatable)",
    },
    "no-model-card": { type: "boolean", about: "do not write a README.md" },
  },
  async run(input, context) {
    const { output, signal } = context;
    const hub = await hubFromEnvironment();
    const user = await hubUser(hub, signal);
    const { rest, path } = await resolved(input.positionals[0] ?? "", context);
    const scratch = await mkdtemp(join(tmpdir(), "tinklet-push-"));
    try {
      const folder = join(scratch, "adapter");
      await fetchCheckpoint(path, folder, scratch, context, rest);
      checkAdapter(folder);
      const info = await rest.getWeightsInfoByTinkerPath(path, { signal }).catch(() => undefined);
      await fillBaseModel(folder, info);
      const target = repoName(input.text("repo"), input.text("revision"), path, info, user);
      if (!input.flag("no-model-card") && !existsSync(join(folder, "README.md"))) {
        await writeFile(join(folder, "README.md"), modelCard(target.repo, path, info));
      }
      const { isPublic } = await ensureRepo(hub, target.repo, !input.flag("public"), target.revision, signal);
      const readme = await readRepoFile(hub, target.repo, target.revision ?? "main", "README.md", signal);
      const existing = /tinker:\/\/[^\s`]+/.exec(readme ?? "")?.[0];
      if (existing !== undefined && existing !== path) {
        throw new CliError("Repo ID appears to contain a different Tinker checkpoint.", {
          hint: `Found ${existing}, expected ${path}.`,
        });
      }
      const allow = input.texts("allow-pattern");
      const ignore = [...input.texts("ignore-pattern"), ...(allow.length === 0 ? ["checkpoint_complete"] : [])];
      await uploadFiles(hub, await chooseFiles(folder, allow, ignore), {
        ...target,
        message: input.text("commit-message") ?? "Upload a LoRA adapter with tinklet",
        createPr: input.flag("create-pr"),
        onProgress: (text) => output.progress(text),
        signal,
      });
      output.result({
        title: `Checkpoint Hub Upload: ${path}`,
        columns: ["Property", "Value"],
        rows: [
          ["Checkpoint Path", path],
          ["Repo ID", target.repo],
          ...(target.revision === undefined ? [] : [["Revision", target.revision]]),
          ["Public", formatBool(isPublic)],
        ],
        json: {
          checkpoint_path: path,
          repo_id: target.repo,
          ...omitUndefined({ revision: target.revision }),
          public: isPublic,
        },
      });
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  },
};

function checkAdapter(folder: string): void {
  const has = (name: string) => existsSync(join(folder, name));
  if (!has("adapter_config.json") || !(has("adapter_model.safetensors") || has("adapter_model.bin"))) {
    throw new CliError("Checkpoint archive does not contain a PEFT adapter.", {
      hint: "Expected adapter_config.json and adapter_model.safetensors: use a checkpoint saved for sampling.",
    });
  }
  if (!has("checkpoint_complete")) {
    throw new CliError("Checkpoint archive is missing 'checkpoint_complete'.", {
      hint: "The adapter files may be incomplete.",
    });
  }
}

async function fillBaseModel(folder: string, info: WeightsInfoResponse | undefined): Promise<void> {
  const file = join(folder, "adapter_config.json");
  const config = JSON.parse(await readFile(file, "utf8")) as Record<string, unknown>;
  if (typeof config["base_model_name_or_path"] === "string") return;
  await writeFile(
    file,
    `${JSON.stringify({ ...config, base_model_name_or_path: info?.baseModel ?? "unknown" }, null, 2)}\n`,
  );
}

/** The official tool's names: `tinker-<model>-<run>`, on a branch named after the checkpoint. */
export function repoName(
  repo: string | undefined,
  revision: string | undefined,
  path: string,
  info: Pick<WeightsInfoResponse, "baseModel"> | undefined,
  user: string,
): { readonly repo: string; readonly revision: string | undefined } {
  if (repo !== undefined) return { repo: repo.includes("/") ? repo : `${user}/${repo}`, revision };
  const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(path);
  const short = info === undefined ? "adapter" : info.baseModel.split("/").at(-1);
  return {
    repo: `${user}/${sanitized(`tinker-${short}-${trainingRunId}`)}`,
    revision: revision ?? sanitized(checkpointId.replaceAll("/", "-")),
  };
}

const sanitized = (name: string) =>
  name
    .replace(/[^\p{L}\p{N}\-_.]/gu, "-")
    .replace(/-{2,}/g, "-")
    .replace(/^[-_ .]+|[-_ .]+$/g, "");

function modelCard(repo: string, path: string, info: WeightsInfoResponse | undefined): string {
  const base = info?.baseModel ?? "unknown";
  const tags = ["tinker", "peft", "lora", ...(info === undefined ? [] : [`base_model:adapter:${base}`])];
  const modules =
    info === undefined
      ? []
      : [`- Trained modules: attn=${info.trainAttn}, mlp=${info.trainMlp}, unembed=${info.trainUnembed}`];
  return [
    "---",
    `base_model: ${base}`,
    "library_name: peft",
    "tags:",
    ...tags.map((tag) => `- ${tag}`),
    `tinker_path: ${path}`,
    "---",
    "",
    "# LoRA adapter",
    "",
    `A LoRA adapter over \`${base}\`, trained over the Tinker API and saved as \`${path}\`.`,
    "",
    "```python",
    "from transformers import AutoModelForCausalLM",
    "",
    `model = AutoModelForCausalLM.from_pretrained("${repo}", device_map="auto")`,
    "```",
    "",
    ...(info?.loraRank === undefined ? [] : [`- LoRA rank: ${info.loraRank}`]),
    ...modules,
    "",
  ].join("\n");
}
