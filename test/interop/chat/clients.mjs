// The unmodified official chat clients against the local server: `openai` and `@anthropic-ai/sdk` from npm, here, and `openai`, `anthropic`
// and `llm` from PyPI, in clients.py. Packages are installed under .cache/ and .venv/ from their registries. Every check prints one line; exits 0
// when all held. Nothing here depends on how fast the machine is.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { ensureVenv } from "../venv.mjs";
import { createChecks } from "./checks.mjs";
import { installPackages } from "./install-packages.mjs";
import { checkAnthropic } from "./npm-anthropic.mjs";
import { checkCompatible } from "./npm-compatible.mjs";
import { checkOpenai } from "./npm-openai.mjs";

/** Releases that are checked. */
const npmPackages = [
  "openai@7.53.0",
  "@anthropic-ai/sdk@1.8.0",
  "ai@6.0.319",
  "@ai-sdk/openai-compatible@2.0.52",
  "zod@4",
];
const pythonPackages = ["openai==3.49.0", "anthropic==2.8.0", "llm==0.36"];

const load = installPackages("chat-clients", npmPackages);
const python = ensureVenv("chat-clients", pythonPackages);
const server = spawn(process.execPath, [await bundle("test/interop/chat/serve-main.ts")], {
  stdio: ["ignore", "pipe", "inherit"],
});
try {
  const [url] = await once(createInterface({ input: server.stdout }), "line");
  const checks = createChecks();
  await checkOpenai(await load("openai"), url, checks);
  await checkAnthropic(await load("@anthropic-ai/sdk"), url, checks);
  await checkCompatible(await load("ai"), await load("@ai-sdk/openai-compatible"), url, checks);
  const done = spawn(python, [join(root, "test/interop/chat/clients.py"), url], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: done.stdout })) checks.note(line);
  const [status] = done.exitCode === null ? await once(done, "exit") : [done.exitCode];
  checks.is("the Python clients ran to their end", status, 0);
  const { passed, failed } = checks.result();
  console.log(`${passed} checks held, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
} finally {
  server.kill("SIGTERM");
}
