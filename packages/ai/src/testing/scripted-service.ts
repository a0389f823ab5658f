/** A service with scripted replies, for tests: a server in this process over an engine without weights. */
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { ServiceClient } from "@tinklet/sdk";
import { createLocalServer } from "@tinklet/server";
import { onTestFinished } from "vitest";
import { familyFiles, type TestFamily } from "../../../models/src/testing/chat-templates.ts";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { type FakeEngineOptions, fakeEngine } from "../../../server/src/testing/fake-engine.ts";

export const modelName = "scripted";

export interface ScriptedOptions extends Omit<FakeEngineOptions, "reply"> {
  /** `plain`: a template without tool support; `none`: no template. @defaultValue "qwen" */
  readonly family?: TestFamily | "plain" | "none";
  /** Whether the server reports no extensions. @defaultValue false */
  readonly strict?: boolean;
}

function filesOf(family: NonNullable<ScriptedOptions["family"]>) {
  if (family === "plain") return tinyTokenizer;
  if (family === "none") return { "tokenizer.json": tinyTokenizer["tokenizer.json"] };
  return familyFiles(family);
}

/**
 * @param replies - the model's replies in order; the last one repeats. A string is followed by the end-of-turn token; token ids are
 *   returned unchanged.
 */
export async function scriptedService(
  replies: readonly (string | readonly number[])[],
  { family = "qwen", strict = false, ...engine }: ScriptedOptions = {},
) {
  const files = filesOf(family);
  const tokenizer = tokenizerFromFiles(files, modelName);
  const end = family === "plain" || family === "none" ? tokenizer.tokenToId("<|im_end|>")! : tokenizer.eosTokenIds[0]!;
  const encode = (text: string) => tokenizer.encode(text, { addSpecialTokens: false });
  const prompts: string[] = [];
  let told = 0;
  const reply: FakeEngineOptions["reply"] = ({ prompt }) => {
    prompts.push(tokenizer.decode(Array.from(prompt)));
    const next = replies[Math.min(told++, replies.length - 1)]!;
    return typeof next === "string" ? [...encode(next), end] : next;
  };
  const server = await createLocalServer({
    strict,
    model: {
      name: modelName,
      open: async () => fakeEngine({ contextLength: 4096, ...engine, reply }),
      tokenizerFiles: async () => files,
    },
  });
  const service = new ServiceClient({
    apiKey: "tml-test",
    baseUrl: server.url,
    fetch: server.fetch,
    telemetry: false,
    logLevel: "off",
  });
  onTestFinished(async () => {
    await service.close();
    await server.close();
  });
  return { service, server, tokenizer, encode, end, prompts };
}
