/** `chat`: a conversation on the terminal. Without a terminal each line of stdin is a user message. */
import { createInterface } from "node:readline";
import type { ChatMessage } from "@tinklet/sdk";
import type { Command } from "../command.ts";
import { CliError } from "../output/explain.ts";
import { nearest } from "../parse.ts";
import { openSampler, samplingOptions, samplingParams, write, writeLive } from "../sampling.ts";

/** Lines that the program handles and does not send to the model. */
const slashCommands: Readonly<Record<string, string>> = {
  "/reset": "start a new conversation",
  "/exit": "end (or Ctrl-D)",
  "/help": "show this list",
};

/** The reply to a line that begins with a slash. */
function answered(line: string): string {
  const [word = ""] = line.split(/\s/);
  const list = Object.entries(slashCommands).map(([name, about]) => `  ${name.padEnd(7)} ${about}`);
  if (word === "/help") return [...list, "  //TEXT  send a message that begins with a slash"].join("\n");
  const close = nearest(word, Object.keys(slashCommands));
  return `Unknown command ${word}.${close === undefined ? "" : ` Did you mean ${close}?`} /help lists the commands; // sends a message that begins with a slash.`;
}

export const chat: Command = {
  usage: "chat [--model NAME | --from CHECKPOINT] [--system TEXT]",
  about: "Chats with a model, using its chat template. /help lists the commands of the chat; /exit or Ctrl-D ends it.",
  options: {
    ...samplingOptions,
    system: { type: "string", value: "TEXT", about: "system message" },
  },
  examples: ["chat --local", "chat --local --from runs/pirate --temperature 0.7"],
  async run(input, context) {
    const { output, signal } = context;
    const params = samplingParams(input);
    const opened = await openSampler(input, context);
    const { tokenizer } = opened;
    if (!tokenizer.hasChatTemplate) {
      throw new CliError(`${opened.title} has no chat template.`, {
        hint: "It is probably a base model without instruction tuning: use npx tinklet sample.",
      });
    }
    const system = input.text("system");
    const start: readonly ChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
    let messages = [...start];
    const live = process.stdin.isTTY === true && process.stdout.isTTY === true && !output.isJson;
    if (live) output.note(`${opened.title}. /reset starts a new conversation, /exit ends, /help lists all commands.`);
    const lines = createInterface({ input: process.stdin, ...(live ? { output: process.stdout } : {}), prompt: "› " });
    signal.addEventListener("abort", () => lines.close(), { once: true });
    lines.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
    let open = true;
    lines.once("close", () => {
      open = false; // Ctrl-D during an answer: prompt() would resume stdin and keep the process alive
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
