/** `sample`: continues a prompt from the arguments or from stdin. */
import { text as readAll } from "node:stream/consumers";
import type { Command } from "../command.ts";
import { UsageError } from "../parse.ts";
import { openSampler, samplingOptions, samplingParams, write, writeLive } from "../sampling.ts";

export const sample: Command = {
  usage: "sample [PROMPT] [--model NAME | --from CHECKPOINT] [--chat]",
  about:
    "Continues a prompt from the argument or from stdin. Streams the text if the server supports it (Tinklet's does).",
  arguments: ["PROMPT?"],
  options: {
    ...samplingOptions,
    "num-samples": { type: "string", short: "n", value: "N", about: "number of samples (default 1)" },
    chat: { type: "boolean", about: "send the prompt as a user message, with the model's chat template" },
  },
  examples: [
    'sample "Once upon a time" --local',
    'sample "Who are you?" --chat --local --from runs/pirate',
    'sample "Who are you?" --chat --local --from runs/pirate/adapter   # any PEFT folder',
  ],
  async run(input, context) {
    const { output, signal } = context;
    const [given] = input.positionals;
    if (given === undefined && process.stdin.isTTY) {
      throw new UsageError("PROMPT is missing: give it as an argument or on stdin");
    }
    const params = samplingParams(input);
    const numSamples = input.integer("num-samples", 1) ?? 1;
    const prompt = given ?? (await readAll(process.stdin)).replace(/\n$/, "");
    const opened = await openSampler(input, context);
    const { tokenizer } = opened;
    const tokens = input.flag("chat")
      ? tokenizer.applyChatTemplate([{ role: "user", content: prompt }], { addGenerationPrompt: true })
      : tokenizer.encode(prompt);
    const chat = input.flag("chat");
    if (!output.isJson && numSamples === 1) {
      output.endProgress();
      if (!chat) output.data(output.style(prompt, "dim"));
      const show = (piece: string) => output.data(piece);
      await writeLive(opened, tokens, params, context, { trimmed: chat, show });
      output.line();
      return 0;
    }
    const written = await write(opened, tokens, params, { numSamples, signal });
    if (output.isJson) {
      const samples = written.map(({ text, tokens: count, stopReason }) => ({
        text,
        tokens: count,
        stop_reason: stopReason,
      }));
      output.result({ json: { model: opened.name, prompt, samples }, columns: [], rows: [] });
      return 0;
    }
    written.forEach(({ text }, at) => {
      output.line(output.style(`── ${at + 1}`, "dim"));
      output.data(`${chat ? text.trim() : `${output.style(prompt, "dim")}${text}`}\n`);
    });
    return 0;
  },
};
