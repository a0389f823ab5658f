/** The command table: words, a one-line description and a loader for each command. Plain data, because every start reads it. */
import type { Command } from "./command.ts";

/** A command before its code is loaded. */
export interface Listed {
  readonly words: readonly string[];
  readonly about: string;
  readonly section: string;
  readonly load: () => Promise<Command>;
}

const start = "Start here";
const train = "Train and sample";
const manage = "Manage runs, checkpoints and traces";
const tool = "The tool itself";

export const commandTable: readonly Listed[] = [
  {
    words: ["quickstart"],
    about: "train a small model on this machine in a minute (--rl: with a reward)",
    section: start,
    load: async () => (await import("./commands/quickstart.ts")).quickstart,
  },
  {
    words: ["doctor"],
    about: "check this machine, the key and the server, and run a training step",
    section: start,
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    words: ["train"],
    about: "fine-tune on a JSONL file; resumes where it stopped",
    section: train,
    load: async () => (await import("./commands/train.ts")).train,
  },
  {
    words: ["recipe", "list"],
    about: "list recipes: reinforcement, tools, preferences, distillation and more",
    section: train,
    load: async () => (await import("./commands/recipe.ts")).recipeList,
  },
  {
    words: ["recipe", "run"],
    about: "run a recipe and compare the model before and after",
    section: train,
    load: async () => (await import("./commands/recipe.ts")).recipeRun,
  },
  {
    words: ["recipe", "copy"],
    about: "copy a recipe's file, to edit it",
    section: train,
    load: async () => (await import("./commands/recipe.ts")).recipeCopy,
  },
  {
    words: ["eval"],
    about: "measure models on a data file or a recipe's tasks, side by side",
    section: train,
    load: async () => (await import("./commands/eval.ts")).evalCommand,
  },
  {
    words: ["inspect"],
    about: "show a data file as tokens, coloured by their weight in the loss",
    section: train,
    load: async () => (await import("./commands/inspect.ts")).inspect,
  },
  {
    words: ["plot"],
    about: "plot the metrics of runs, in the terminal or as SVG or HTML",
    section: train,
    load: async () => (await import("./commands/plot.ts")).plot,
  },
  {
    words: ["sample"],
    about: "continue a prompt, from a base model or a checkpoint",
    section: train,
    load: async () => (await import("./commands/sample.ts")).sample,
  },
  {
    words: ["chat"],
    about: "chat with a model",
    section: train,
    load: async () => (await import("./commands/chat.ts")).chat,
  },
  {
    words: ["export"],
    about: "write a checkpoint for other programs: an adapter, a merged model, or a GGUF",
    section: train,
    load: async () => (await import("./commands/export.ts")).exportCommand,
  },
  {
    words: ["serve"],
    about: "run the Tinker API on this machine",
    section: train,
    load: async () => (await import("./commands/serve.ts")).serve,
  },
  {
    words: ["status"],
    about: "show whether a tinklet serve runs on the data folder",
    section: train,
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    words: ["stop"],
    about: "stop the tinklet serve that runs on the data folder",
    section: train,
    load: async () => (await import("./commands/status.ts")).stop,
  },
  {
    words: ["studio"],
    about: "show run folders in a browser, without a model",
    section: train,
    load: async () => (await import("./commands/studio.ts")).studio,
  },
  {
    words: ["conformance"],
    about: "run the black-box test suite against a Tinker server",
    section: train,
    load: async () => (await import("./commands/conformance.ts")).conformance,
  },
  {
    words: ["run", "list"],
    about: "list training runs",
    section: manage,
    load: async () => (await import("./commands/run.ts")).runList,
  },
  {
    words: ["run", "info"],
    about: "show one training run",
    section: manage,
    load: async () => (await import("./commands/run.ts")).runInfo,
  },
  {
    words: ["run", "delete"],
    about: "permanently delete training runs and their checkpoints",
    section: manage,
    load: async () => (await import("./commands/run-delete.ts")).runDelete,
  },
  {
    words: ["checkpoint", "list"],
    about: "list checkpoints",
    section: manage,
    load: async () => (await import("./commands/checkpoint.ts")).checkpointList,
  },
  {
    words: ["checkpoint", "info"],
    about: "show one checkpoint",
    section: manage,
    load: async () => (await import("./commands/checkpoint.ts")).checkpointInfo,
  },
  {
    words: ["checkpoint", "publish"],
    about: "make a checkpoint public",
    section: manage,
    load: async () => (await import("./commands/checkpoint.ts")).checkpointPublish,
  },
  {
    words: ["checkpoint", "unpublish"],
    about: "make a checkpoint private again",
    section: manage,
    load: async () => (await import("./commands/checkpoint.ts")).checkpointUnpublish,
  },
  {
    words: ["checkpoint", "set-ttl"],
    about: "set when a checkpoint expires",
    section: manage,
    load: async () => (await import("./commands/checkpoint.ts")).checkpointSetTtl,
  },
  {
    words: ["checkpoint", "delete"],
    about: "permanently delete checkpoints",
    section: manage,
    load: async () => (await import("./commands/checkpoint-delete.ts")).checkpointDelete,
  },
  {
    words: ["checkpoint", "download"],
    about: "download a checkpoint as an adapter folder",
    section: manage,
    load: async () => (await import("./commands/checkpoint-download.ts")).checkpointDownload,
  },
  {
    words: ["checkpoint", "push-hf"],
    about: "upload a checkpoint to the Hugging Face Hub",
    section: manage,
    load: async () => (await import("./commands/checkpoint-push-hf.ts")).checkpointPushHf,
  },
  {
    words: ["session", "list"],
    about: "list sessions",
    section: manage,
    load: async () => (await import("./commands/session.ts")).sessionList,
  },
  {
    words: ["session", "info"],
    about: "show the runs and samplers of a session",
    section: manage,
    load: async () => (await import("./commands/session.ts")).sessionInfo,
  },
  {
    words: ["session", "export-trace"],
    about: "download the timeline of a session for Perfetto",
    section: manage,
    load: async () => (await import("./commands/session.ts")).sessionExportTrace,
  },
  {
    words: ["traces", "list"],
    about: "list traces that programs exported to the server",
    section: manage,
    load: async () => (await import("./commands/traces.ts")).tracesList,
  },
  {
    words: ["traces", "show"],
    about: "show the conversations of a trace",
    section: manage,
    load: async () => (await import("./commands/traces.ts")).tracesShow,
  },
  {
    words: ["traces", "rate"],
    about: "rate or correct an answer",
    section: manage,
    load: async () => (await import("./commands/traces.ts")).tracesRate,
  },
  {
    words: ["traces", "export"],
    about: "write traces as training data: JSONL for train, pairs for DPO",
    section: manage,
    load: async () => (await import("./commands/traces.ts")).tracesExport,
  },
  {
    words: ["traces", "delete"],
    about: "permanently delete traces",
    section: manage,
    load: async () => (await import("./commands/traces.ts")).tracesDelete,
  },
  {
    words: ["billing", "usage"],
    about: "show usage by the hour",
    section: manage,
    load: async () => (await import("./commands/billing.ts")).billingUsage,
  },
  {
    words: ["billing", "checkpoint-storage"],
    about: "show the size and the cost of stored checkpoints",
    section: manage,
    load: async () => (await import("./commands/billing.ts")).billingCheckpointStorage,
  },
  {
    words: ["billing", "storage"],
    about: "the same; with --explain, which runs keep what, and the commands that free it",
    section: manage,
    load: async () => (await import("./commands/billing-storage.ts")).billingStorage,
  },
  {
    words: ["model", "list"],
    about: "list the models of the server",
    section: manage,
    load: async () => (await import("./commands/model.ts")).modelList,
  },
  {
    words: ["data"],
    about: "show what uses the data folder on this machine",
    section: manage,
    load: async () => (await import("./commands/data.ts")).data,
  },
  {
    words: ["data", "prune"],
    about: "permanently delete old runs and traces from the data folder",
    section: manage,
    load: async () => (await import("./commands/data.ts")).dataPrune,
  },
  {
    words: ["auth", "login"],
    about: "store an API key for the current user",
    section: tool,
    load: async () => (await import("./commands/auth.ts")).authLogin,
  },
  {
    words: ["auth", "logout"],
    about: "remove the stored API key",
    section: tool,
    load: async () => (await import("./commands/auth.ts")).authLogout,
  },
  {
    words: ["auth", "status"],
    about: "check that a credential exists and that the server accepts it",
    section: tool,
    load: async () => (await import("./commands/auth.ts")).authStatus,
  },
  {
    words: ["auth", "whoami"],
    about: "show the user and organization of the credential",
    section: tool,
    load: async () => (await import("./commands/auth.ts")).authWhoami,
  },
  {
    words: ["completions"],
    about: "print a completion script for bash, zsh or fish",
    section: tool,
    load: async () => (await import("./commands/completions.ts")).completions,
  },
  {
    words: ["version"],
    about: "print the version",
    section: tool,
    load: async () => ({ usage: "version", about: "Prints the version.", run: async () => 0 }),
  },
];

/** Global options that take a value: the search for the command's words skips both. */
const takesValue = new Set(["--format", "-f", "--base-url", "--api-key", "--api-key-file", "--data-dir"]);

/** Finds the command in the arguments; global options may come before, between or after its words. */
export function findCommand(args: readonly string[]): {
  readonly command: Listed | undefined;
  readonly words: readonly string[];
  /** The first word, if it begins a command. */
  readonly group: string | undefined;
  /** The arguments without the command's words. */
  readonly rest: readonly string[];
} {
  const rest = [...args];
  const words: string[] = [];
  let candidates: readonly Listed[] = commandTable;
  for (let at = 0; at < rest.length; ) {
    const arg = rest[at] as string;
    if (arg.startsWith("-")) {
      at += takesValue.has(arg) ? 2 : 1;
      continue;
    }
    const next = candidates.filter((listed) => listed.words[words.length] === arg);
    if (next.length === 0) break;
    words.push(arg);
    rest.splice(at, 1);
    candidates = next;
    if (next.length === 1 && next[0]?.words.length === words.length)
      return { command: next[0], words, group: words[0], rest };
  }
  // `data` is a command although `data prune` begins with it.
  const command = words.length === 0 ? undefined : candidates.find((listed) => listed.words.length === words.length);
  return { command, words, group: words[0], rest };
}
