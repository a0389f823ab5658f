/** The code that asks what the playground asks: for the SDK, the OpenAI client, the AI SDK, and the shell. */
import type { AnswerRequest } from "./views/stream.ts";

export type CodeKind = "sdk" | "openai" | "ai-sdk" | "command";

export const codeKinds = [
  ["sdk", "Tinklet SDK"],
  ["openai", "OpenAI client"],
  ["ai-sdk", "AI SDK"],
  ["command", "Command"],
] as const satisfies readonly (readonly [CodeKind, string])[];

/** A string literal of TypeScript. */
const literal = (text: string): string =>
  JSON.stringify(text).replace(/[\u2028\u2029]/g, (sign) => `\\u${sign.charCodeAt(0).toString(16)}`);

/** A shell argument, quoted if needed. */
export const quoted = (text: string): string =>
  /^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

const isPath = (model: string): boolean => model.startsWith("tinker://");

/**
 * @param server - address of the server, such as `http://127.0.0.1:8471`
 * @returns a program that prints the answer, or a command line
 */
export function codeOf(kind: CodeKind, asked: AnswerRequest, server: string): string {
  const { model, mode, messages, prompt, temperature, maxTokens, seed } = asked;
  const list = messages
    .map(({ role, content }) => `  { role: ${literal(role)}, content: ${literal(content)} },`)
    .join("\n");
  const isChat = mode === "chat";
  if (kind === "command") {
    const question = isChat ? (messages.findLast(({ role }) => role === "user")?.content ?? "") : prompt;
    const from = isPath(model) ? "--from" : "--model";
    const settings = `--temperature ${temperature} --max-tokens ${maxTokens} --seed ${seed}`;
    return `npx tinklet sample ${quoted(question)}${isChat ? " --chat" : ""} ${from} ${quoted(model)} ${settings} --base-url ${quoted(server)}`;
  }
  if (kind === "openai") {
    const call = isChat ? "chat.completions.create" : "completions.create";
    const input = isChat ? `  messages: [\n${indented(list)}\n  ],` : `  prompt: ${literal(prompt)},`;
    return `import OpenAI from "openai";

const client = new OpenAI({ baseURL: ${literal(`${server}/v1`)}, apiKey: process.env.TINKER_API_KEY ?? "tml-local" });
const answer = await client.${call}({
  model: ${literal(model)},
${input}
  temperature: ${temperature},
  max_tokens: ${maxTokens},
  seed: ${seed},
});
console.log(answer.choices[0]?.${isChat ? "message.content" : "text"});
`;
  }
  if (kind === "ai-sdk") {
    const input = isChat ? `  messages: [\n${indented(list)}\n  ],` : `  prompt: ${literal(prompt)},`;
    return `import { createTinklet } from "@tinklet/ai";
import { generateText } from "ai";

const tinklet = createTinklet({ baseUrl: ${literal(server)}, apiKey: process.env.TINKER_API_KEY ?? "tml-local" });
const { text } = await generateText({
  model: tinklet(${literal(model)}),
${input}
  temperature: ${temperature},
  maxOutputTokens: ${maxTokens},
  seed: ${seed},
});
console.log(text);
`;
  }
  const source = isPath(model) ? `modelPath: ${literal(model)}` : `baseModel: ${literal(model)}`;
  const ids = isChat
    ? `const messages = [\n${list}\n];
const prompt = tokenizer.applyChatTemplate(messages, { addGenerationPrompt: true });`
    : `const prompt = tokenizer.encode(${literal(prompt)});`;
  return `import { ModelInput, ServiceClient } from "tinklet";

const service = await ServiceClient.connect({ baseUrl: ${literal(server)}, apiKey: process.env.TINKER_API_KEY ?? "tml-local" });
const sampler = await service.createSamplingClient({ ${source} });
const tokenizer = await sampler.getTokenizer();
${ids}
const { sequences } = await sampler.sample(ModelInput.fromInts(prompt), {
  samplingParams: { maxTokens: ${maxTokens}, temperature: ${temperature}, seed: ${seed}, stop: [...tokenizer.eosTokenIds] },
});
for (const { tokens } of sequences) console.log(tokenizer.decode(tokens, { skipSpecialTokens: true }));
await service.close();
`;
}

const indented = (lines: string): string => lines.replace(/^/gm, "  ");
