// Unmodified tools that people point at the chat endpoints, most of them with demanded or strict tool calls and schemas by default: OpenAI's Agents
// SDK and LangChain in Python and JavaScript, instructor, Pydantic AI, litellm and dspy. The bundled model answers; replies are checked for
// their form, at temperature 0: what the model says does not matter, but it must be the same each time.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { bundle, root } from "../../fixtures/programs/bundle.mjs";
import { createChecks } from "../chat/checks.mjs";
import { installPackages } from "../chat/install-packages.mjs";
import { ensureVenv } from "../venv.mjs";
import { checkLmEval } from "./lm-eval.mjs";

/** Releases that are checked. */
const npmPackages = ["@openai/agents@0.20.0", "@langchain/openai@1.6.0", "@langchain/core@1", "openai@7.53.0", "zod@4"];
const agentPackages = [
  "openai-agents==0.24.0",
  "instructor==1.17.0",
  "langchain-openai==1.7.3",
  "pydantic-ai-slim[openai]==2.38.0",
];
/** They want another release of `openai` than LangChain. */
const litellmPackages = ["litellm==1.106.2", "mcp==2.3.0", "dspy==3.4.1"];

const load = installPackages("chat-tools", npmPackages);
const pythons = [
  {
    python: ensureVenv("chat-tools", agentPackages),
    tools: ["responses_api", "agents_sdk", "instructor_", "langchain", "pydantic_ai"],
  },
  { python: ensureVenv("chat-litellm", litellmPackages), tools: ["litellm_", "dspy_"] },
];
const server = spawn(process.execPath, [await bundle("test/interop/chat/serve-main.ts")], {
  stdio: ["ignore", "pipe", "inherit"],
});
try {
  const [url] = await once(createInterface({ input: server.stdout }), "line");
  const checks = createChecks();
  await checkAgents(url, checks);
  await checkLangChain(url, checks);
  await checkLmEval(url, checks);
  for (const { python, tools } of pythons) {
    const done = spawn(python, ["-W", "ignore", join(root, "test/interop/tools/tools.py"), `${url}/v1`, ...tools], {
      stdio: ["ignore", "pipe", "inherit"],
      env: {
        ...process.env,
        OPENAI_AGENTS_DISABLE_TRACING: "1",
        LITELLM_LOCAL_MODEL_COST_MAP: "True",
        DSPY_CACHEDIR: join(root, ".cache/dspy"),
      },
    });
    for await (const line of createInterface({ input: done.stdout })) checks.note(line);
    const [status] = done.exitCode === null ? await once(done, "exit") : [done.exitCode];
    checks.is(`${tools.join(", ")} ran to their end`, status, 0);
  }
  const { passed, failed } = checks.result();
  console.log(`${passed} checks held, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
} finally {
  server.kill("SIGTERM");
}

/** Runs one check; what it throws is its failure. */
async function attempt(checks, what, run) {
  try {
    checks.holds(what, await run(), "not of the expected form");
  } catch (error) {
    checks.holds(what, false, `${error?.constructor?.name}: ${String(error?.message).slice(0, 300)}`);
  }
}

async function checkAgents(url, checks) {
  const { Agent, OpenAIResponsesModel, run, setTracingDisabled, tool } = await load("@openai/agents");
  const { default: OpenAI } = await load("openai");
  const { z } = await load("zod");
  setTracingDisabled(true);
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "tml-chat", maxRetries: 0 });
  const model = new OpenAIResponsesModel(client, "tinklet/base");
  const weather = tool({
    name: "get_weather",
    description: "The weather of a city.",
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => `21 degrees in ${city}`,
  });
  const settings = { maxTokens: 60, temperature: 0 };
  const agent = new Agent({
    name: "free",
    model,
    instructions: "Be brief.",
    tools: [weather],
    modelSettings: settings,
  });
  const at = (what) => `@openai/agents (npm): ${what}`;
  await attempt(checks, at("a strict tool that the model need not call"), async () => {
    const { finalOutput } = await run(agent, "What is 2 + 3?", { maxTurns: 4 });
    return typeof finalOutput === "string";
  });
  await attempt(checks, at("a demanded call and its result"), async () => {
    const demanding = agent.clone({ modelSettings: { ...settings, toolChoice: "required" } });
    const { newItems } = await run(demanding, "The weather in Oslo?", { maxTurns: 4 });
    const types = newItems.map(({ type }) => type);
    return types.includes("tool_call_item") && types.includes("tool_call_output_item");
  });
  await attempt(checks, at("typed output"), async () => {
    const typed = new Agent({
      name: "typed",
      model,
      outputType: z.object({ result: z.number().int().min(0).max(100) }),
      modelSettings: settings,
    });
    const { finalOutput } = await run(typed, "What is 2 + 3?");
    return Number.isInteger(finalOutput?.result);
  });
  await attempt(checks, at("a stream"), async () => {
    const stream = await run(agent, "What is 2 + 3?", { stream: true, maxTurns: 4 });
    let events = 0;
    for await (const _ of stream) events++;
    await stream.completed;
    return events > 3;
  });
}

async function checkLangChain(url, checks) {
  const { ChatOpenAI } = await load("@langchain/openai");
  const { z } = await load("zod");
  const model = new ChatOpenAI({
    model: "tinklet/base",
    apiKey: "tml-chat",
    maxTokens: 80,
    temperature: 0,
    maxRetries: 0,
    configuration: { baseURL: `${url}/v1` },
  });
  const user = z.object({ name: z.string().max(10), age: z.number().int().min(0).max(120) });
  for (const method of ["functionCalling", "jsonSchema"]) {
    await attempt(checks, `@langchain/openai (npm): structured output by ${method}`, async () => {
      const { name, age } = await model.withStructuredOutput(user, { name: "user", method }).invoke("Bob is 5.");
      return typeof name === "string" && Number.isInteger(age);
    });
  }
  await attempt(checks, "@langchain/openai (npm): the Responses API", async () => {
    const reply = await new ChatOpenAI({
      model: "tinklet/base",
      apiKey: "tml-chat",
      maxTokens: 20,
      temperature: 0,
      maxRetries: 0,
      useResponsesApi: true,
      configuration: { baseURL: `${url}/v1` },
    }).invoke("What is 2 + 3?");
    return reply.text.length > 0;
  });
}
