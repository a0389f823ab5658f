/** `chat`: a conversation, line by line. Without a terminal each line of stdin is a turn. */
import { createInterface } from "node:readline";
import type { ChatMessage } from "@tinklet/sdk";
import type { Command } from "../command.ts";
import { CliError } from "../output/explain.ts";
import { nearest } from "../parse.ts";
import { openSampler, samplingOptions, samplingParams, write, writeLive } from "../sampling.ts";

/** What is answered by the program and never sent to the model. */
const slashCommands: Readonly<Record<string, string>> = {
  "/reset": "forget the conversation and begin anew",
  "/exit": "end (Ctrl-D does, too)",
  "/help": "this list",
};

/** The program's answer to a line that begins with a slash. */
function answered(line: string): string {
  const [word = ""] = line.split(/\s/);
  const list = Object.entries(slashCommands).map(([name, about]) => `  ${name.padEnd(7)} ${about}`);
  if (word === "/help") return [...list, "  //TEXT  send a message that begins with a slash"].join("\n");
  const close = nearest(word, Object.keys(slashCommands));
  return `There is no ${word}.${close === undefined ? "" : ` Did you mean ${close}?`} /help lists what there is; //… sends a message that begins with a slash.`;
}

export const chat: Command = {
  usage: "chat [--model NAME | --from CHECKPOINT] [--system TEXT]",
  about: "Talks to a model in its chat format. /help lists what the program itself answers; /exit or Ctrl-D ends.",
  options: {
    ...samplingOptions,
    system: { type: "string", value: "TEXT", about: "a message before the conversation" },
  },
  examples: ["chat --local", "chat --local --from runs/pirate --temperature 0.7"],
  async run(input, context) {
    const { output, signal } = context;
    const params = samplingParams(input);
    const opened = await openSampler(input, context);
    const { tokenizer } = opened;
    if (!tokenizer.hasChatTemplate) {
      throw new CliError(`${opened.name} brings no chat template.`, {
        hint: "It is probably a base model: use tinklet sample.",
      });
    }
    const system = input.text("system");
    const start: readonly ChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
    let messages = [...start];
    const live = process.stdin.isTTY === true && process.stdout.isTTY === true && !output.isJson;
    if (live) output.note(`${opened.name}. /reset begins anew, /exit ends, /help shows the rest.`);
    const lines = createInterface({ input: process.stdin, ...(live ? { output: process.stdout } : {}), prompt: "› " });
    signal.addEventListener("abort", () => lines.close(), { once: true });
    lines.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
    let open = true;
    lines.once("close", () => {
      open = false; // by Ctrl-D in the middle of an answer: a prompt would open stdin again, and nobody would close it
    });
    const prompt = () => {
      if (live && open) lines.prompt();
    };
    prompt();
    for await (const typed of lines) {
      const line = typed.trim();
      if (line === "/exit") break;
      if (line === "/reset") messages = [...start];
      else if (/^\/(?!\/)/.test(line)) output.note(answered(line));
      else if (line !== "") {
        messages.push({ role: "user", content: line.replace(/^\/\//, "/") });
        const tokens = tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true });
        let content: string;
        if (output.isJson) {
          const [answer] = await write(opened, tokens, params, { signal });
          content = answer?.text.trim() ?? "";
          output.event({ role: "assistant", content, tokens: answer?.tokens ?? 0 });
        } else {
          const show = (piece: string) => output.data(output.style(piece, "cyan"));
          ({ text: content } = await writeLive(opened, tokens, params, context, { trimmed: true, show }));
          output.line();
        }
        messages.push({ role: "assistant", content });
      }
      prompt();
    }
    lines.close();
    signal.throwIfAborted();
    return 0;
  },
};
