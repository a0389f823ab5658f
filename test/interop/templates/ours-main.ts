// Renders the compared conversations with our tokenizers, and writes them for render.py: `main.js TEMPLATES OUT [COUNT]`.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createChat } from "@tinklet/models/chat";
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { ownFamilies, realFamilies } from "../../fixtures/chat/families.ts";
import { readBack } from "../../fixtures/chat/read-back.ts";

const [templates = "", out = "", count = "40"] = process.argv.slice(2);
const families = [...ownFamilies(), ...realFamilies(templates, Number(count))];
const input = families.map(({ files, conversations }, at) => {
  const file = join(out, `tokenizer-${at}.json`);
  writeFileSync(file, files["tokenizer.json"]);
  return { file, settings: JSON.parse(files["tokenizer_config.json"] as string) as object, conversations };
});
writeFileSync(join(out, "input.json"), JSON.stringify(input));
const ours = families.map(({ name, files, conversations }) => {
  const tokenizer = tokenizerFromFiles(files, name);
  const rendered = conversations.map(({ messages, tools, addGenerationPrompt, variables }) => {
    try {
      const options = { addGenerationPrompt, variables, ...(tools && { tools }) };
      const text = tokenizer.applyChatTemplate(messages, { ...options, tokenize: false });
      return { ids: tokenizer.applyChatTemplate(messages, options), text };
    } catch (error) {
      return { error: (error as Error).message };
    }
  });
  const chat = createChat(tokenizer);
  const turns = conversations.flatMap((conversation, at) => {
    if ("error" in (rendered[at] as object)) return [];
    return readBack(chat, tokenizer, conversation) ?? [];
  });
  return { name, rendered, format: chat.format.name, turns };
});
writeFileSync(join(out, "ours.json"), JSON.stringify(ours));
