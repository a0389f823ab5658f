// 64 rollouts at once (200 with `MCP_GROUPS=25`), each with a process of its own, against servers of which three in four fail; no process is left.
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createChat } from "@tinklet/models/chat";
import { loadTokenizer } from "@tinklet/sdk";
import { expect, it, vi } from "vitest";
import { rolloutGroups } from "../environments/rollout.ts";
import { ScriptedSampler } from "../testing/scripted-sampler.ts";
import { connectMcp, mcpEnv } from "./index.ts";

vi.setConfig({ testTimeout: 600_000 });
const program = fileURLToPath(new URL("../testing/mcp-server.mjs", import.meta.url));

const isAlive = (pid: number) => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

/** Groups of eight rollouts. */
const count = Number(process.env["MCP_GROUPS"] ?? 8);

it("parallel rollouts with servers that work, hang, die and flood leave no process", async () => {
  const work = await mkdtemp(join(tmpdir(), "tinklet-mcp-drill-"));
  const tokenizer = await loadTokenizer(fileURLToPath(new URL("../../../base-model", import.meta.url)));
  const chat = createChat(tokenizer);
  const pidFile = join(work, "pids");
  const modes = ["good", "hangs", "dies", "floods"];
  const groups = Array.from({ length: count }, (_, index) => {
    const mode = modes[index % modes.length] as string;
    const server = { command: process.execPath, args: [program, mode], env: { PID_FILE: pidFile } };
    // Only servers that hang reach this limit; the others answer late where 200 processes share two cores.
    const callTimeoutMs = mode === "hangs" ? 2_000 : 200_000;
    const servers = connectMcp([server], { callTimeoutMs, startTimeoutMs: 200_000 });
    const task = { chat, tokenizer, servers, task: `${mode} ${index}`, maxTokens: 40, name: mode };
    return mcpEnv({ ...task, grade: (answer) => answer === "5" });
  });
  // A policy that calls the tool and then repeats its result.
  const sampler = new ScriptedSampler(tokenizer, (prompt) =>
    prompt.includes('"content":"5"') ? "5<|im_end|>" : '{"name": "add", "arguments": {"a": 2, "b": 3}}<|im_end|>',
  );
  const options = {
    groupSize: 8,
    maxEpisodes: 200,
    envTimeLimitMs: 300_000,
    strategy: { onFailure: "retry", retries: 0 },
  } as const;
  const { groups: finished, failed } = await rolloutGroups(groups, { ...options, sampler });
  expect(finished.map(({ name, totalRewards }) => [name, ...new Set(totalRewards)])).toEqual(
    Array(Math.ceil(count / 4)).fill(["good", 1]),
  );
  expect(failed.length).toBeGreaterThanOrEqual(count - Math.ceil(count / 4));
  const pids = readFileSync(pidFile, "utf8").trim().split("\n").map(Number);
  expect(pids).toHaveLength(8 * count);
  await vi.waitUntil(() => pids.every((pid) => !isAlive(pid)), { timeout: 60_000 });
  await rm(work, { recursive: true, force: true });
});
