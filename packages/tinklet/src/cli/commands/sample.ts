/** `sample`: continues a prompt from the arguments, a file or stdin, and prints the texts or writes them to a file. */
import { readFile } from "node:fs/promises";
import { text as readAll } from "node:stream/consumers";
import type { Tokenizer } from "@tinklet/sdk";
import type { Command } from "../command.ts";
import { writeWhole } from "../files.ts";
import { CliError } from "../output/explain.ts";
import { type Input, UsageError } from "../parse.ts";
import { openSampler, samplingOptions, samplingParams, type Written, write, writeLive } from "../sampling.ts";

export const sample: Command = {
  usage: "sample [PROMPT | --prompt-file FILE] [--model NAME | --from CHECKPOINT] [--chat]",
  about:
    "Continues a prompt from the argument, a file or stdin. Streams the text if the server supports it (Tinklet's does).",
  arguments: ["PROMPT?"],
  options: {
    ...samplingOptions,
    "num-samples": { type: "string", short: "n", value: "N", about: "number of samples (default 1)" },
    "prompt-file": {
      type: "string",
      value: "FILE",
      about: "read the prompt from a file: text, or token ids as a JSON array",
    },
    output: { type: "string", short: "o", value: "FILE", about: "write the result to a file instead of stdout" },
    chat: { type: "boolean", about: "send the prompt as a user message, with the model's chat template" },
  },
  examples: [
    'sample "Once upon a time" --local',
    'sample "Who are you?" --chat --local --from runs/pirate',
    "sample --prompt-file prompt.txt --num-samples 8 --json --output samples.json --local",
    'sample "Who are you?" --chat --local --from runs/pirate/adapter   # any PEFT folder',
  ],
  async run(input, context) {
    const { output, signal } = context;
    const params = samplingParams(input);
    const numSamples = input.integer("num-samples", 1) ?? 1;
    const asked = await readPrompt(input);
    const opened = await openSampler(input, context);
    const { tokenizer } = opened;
    const chat = input.flag("chat");
    const { prompt, tokens } = tokenized(asked, tokenizer, chat);
    const file = input.text("output");
    if (file === undefined && !output.isJson && numSamples === 1) {
      output.endProgress();
      if (!chat) output.data(output.style(prompt, "dim"));
      const show = (piece: string) => output.data(piece);
      await writeLive(opened, tokens, params, context, { trimmed: chat, show });
      output.line();
      return 0;
    }
    const written = await write(opened, tokens, params, { numSamples, signal });
    const json = {
      model: opened.name,
      prompt,
      ...(Array.isArray(asked) ? { prompt_tokens: asked } : {}),
      samples: written.map(({ text, tokens: count, stopReason }) => ({ text, tokens: count, stop_reason: stopReason })),
    };
    const shown = ({ text }: Written, style: (prompt: string) => string) =>
      `${chat ? text.trim() : `${style(prompt)}${text}`}\n`;
    if (file !== undefined) {
      const separator = (at: number) => (numSamples === 1 ? "" : `── ${at + 1}\n`);
      const texts = written.map((one, at) => `${separator(at)}${shown(one, (plain) => plain)}`);
      await writeWhole(file, output.isJson ? `${JSON.stringify(json, null, 2)}\n` : texts.join(""));
      output.note(`Wrote ${file}`);
      return 0;
    }
    if (output.isJson) {
      output.result({ json, columns: [], rows: [] });
      return 0;
    }
    for (const [at, one] of written.entries()) {
      output.line(output.style(`── ${at + 1}`, "dim"));
      output.data(shown(one, (plain) => output.style(plain, "dim")));
    }
    return 0;
  },
};

/** The prompt of the argument, of `--prompt-file` or of stdin: a text, or the token ids of a file. */
async function readPrompt(input: Input): Promise<string | number[]> {
  const [given] = input.positionals;
  const file = input.text("prompt-file");
  if (given !== undefined && file !== undefined) {
    throw new UsageError("give PROMPT or --prompt-file, not both");
  }
  if (given !== undefined) return given;
  if (file === undefined) {
    if (process.stdin.isTTY) {
      throw new UsageError("PROMPT is missing: give it as an argument, with --prompt-file or on stdin");
    }
    return (await readAll(process.stdin)).replace(/\n$/, "");
  }
  const text = await readFile(file, "utf8").catch((cause: NodeJS.ErrnoException) => {
    throw new CliError(`Cannot read the file of --prompt-file, ${file} (${cause.code ?? cause.message}).`);
  });
  const ids = tokenIds(text);
  if (ids !== undefined && input.flag("chat")) {
    throw new UsageError(`--chat needs a text, but ${file} has token ids; leave out --chat or give a text`);
  }
  return ids ?? text.replace(/\n$/, "");
}

/** The token ids if the text is a JSON array of them. */
function tokenIds(text: string): number[] | undefined {
  if (!/^\s*\[[\d\s,]*\]\s*$/.test(text)) return undefined;
  try {
    return JSON.parse(text) as number[];
  } catch {
    return undefined; // [1,,2] and [01] are text
  }
}

/** The prompt as text and as tokens. */
function tokenized(prompt: string | number[], tokenizer: Tokenizer, chat: boolean) {
  if (Array.isArray(prompt)) return { prompt: tokenizer.decode(prompt), tokens: prompt };
  const tokens = chat
    ? tokenizer.applyChatTemplate([{ role: "user", content: prompt }], { addGenerationPrompt: true })
    : tokenizer.encode(prompt);
  return { prompt, tokens };
}
