/**
 * A server for the chat clients' suite, as a process of its own: the bundled model on the real engine, and `scripted`, which writes what the
 * last message behind `SAY ` tells it to, so that calls of tools, thinking and failures can be had at will. The address goes to standard output.
 */
import { tokenizerFromFiles } from "@tinklet/models/tokenizer";
import { familyFiles } from "../../../packages/models/src/testing/chat-templates.ts";
import { hashApiKey } from "../../../packages/server/src/http/access/auth.ts";
import { resolveModels } from "../../../packages/server/src/models.ts";
import { shuttingDown } from "../../../packages/server/src/queue/sampling/transient-sample.ts";
import { serve } from "../../../packages/server/src/serve.ts";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";

const files = familyFiles("qwen");
const tokenizer = tokenizerFromFiles(files, "scripted");
const end = tokenizer.eosTokenIds[0]!;
const running = await serve({
  models: [
    ...(await resolveModels([])),
    {
      name: "scripted",
      open: async () =>
        fakeEngine({
          contextLength: 4096,
          onSample: ({ prompt }) => {
            const asked = tokenizer.decode(Array.from(prompt));
            if (asked.includes("FAIL AT THIS")) throw new Error("the engine is broken");
            if (asked.includes("CLOSE AT THIS")) throw shuttingDown(); // what a server that closes answers
          },
          reply: ({ prompt }) => {
            const turns = tokenizer.decode(Array.from(prompt)).split("<|im_start|>user\n");
            const told = /SAY ([\s\S]*?)<\|im_end\|>/.exec(turns.at(-1) ?? "")?.[1] ?? "Understood.";
            return [...tokenizer.encode(told, { addSpecialTokens: false }), end];
          },
        }),
      tokenizerFiles: async () => files,
    },
  ],
  apiKeys: [{ name: "chat", sha256: hashApiKey("tml-chat") }],
  limits: { chatsPerTenant: 4 },
  openProbes: true,
  port: 0,
  log: "off",
});
process.stdout.write(`${running.url}\n`);
process.on("SIGTERM", () => void running.close().then(() => process.exit(0)));
