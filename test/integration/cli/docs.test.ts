// What the README and the command line's page print is what happens: the programs run, and every command's help is the program's.
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { readPrices } from "../../../packages/cookbook/src/index.ts";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";
import type { Command } from "../../../packages/tinklet/src/cli/command.ts";
import { commandTable, findCommand, type Listed } from "../../../packages/tinklet/src/cli/commands.ts";
import { parseInput } from "../../../packages/tinklet/src/cli/parse.ts";
import { Executable, fakeServer, tokenizer } from "./executable.ts";

vi.setConfig({ testTimeout: 120_000 }); // many processes: a busy machine is no failure
const read = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8");

let tool: Executable;
const specs = new Map<Listed | undefined, Command>();
beforeAll(async () => {
  tool = await Executable.build({ server: true });
  for (const listed of commandTable) specs.set(listed, await listed.load());
}, 60_000);
afterAll(() => tool?.remove());

const [local = "", ...others] = [...read("README.md").matchAll(/```ts\n([\s\S]*?)```/g)].map(
  ([, code]) => code as string,
);

/** Runs a program of the README and returns the losses that it prints. */
async function losses(name: string, code: string, env: Record<string, string>): Promise<number[]> {
  const path = await tool.program(name, code);
  const text = await new Promise<string>((resolve, reject) =>
    execFile(process.execPath, [path], { env: tool.environment(env), cwd: tool.work }, (error, stdout) =>
      error === null ? resolve(stdout) : reject(error),
    ),
  );
  const lines = text
    .trim()
    .split("\n")
    .map((line) => line.split(" ").map(Number));
  expect(lines.map(([step]) => step)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  return lines.map(([, loss]) => loss as number);
}

it("the README has one program of at most 15 lines, and names the call that differs for the hosted service", () => {
  expect(others).toEqual([]);
  expect(local.split("\n").filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(15);
  expect(local).toMatch(/^const service = await ServiceClient\.local\(\); \/\/ .*ServiceClient\.connect\(\)/m);
});

it("the README's program runs on the hosted service with the call, model and rate that it gives", async () => {
  const open = async () => fakeEngine({ vocabSize: 4096, contextLength: 512 });
  const server = await fakeServer({ models: [{ name: "Qwen/Qwen3-8B", open, tokenizerId: tokenizer }] });
  const hosted = local
    .replace("ServiceClient.local()", "ServiceClient.connect()")
    .replace("tinklet/base", "Qwen/Qwen3-8B")
    .replace("2e-3", "1e-4");
  for (const value of ["Qwen/Qwen3-8B", "1e-4"]) expect(read("README.md")).toContain(`\`${value}\``);
  try {
    const found = await losses("hosted", hosted, { TINKER_BASE_URL: server.url, TINKER_API_KEY: "tml-test" });
    expect(found.every(Number.isFinite)).toBe(true);
  } finally {
    await server.close();
  }
});

it("the README's program for this machine runs as printed, and its model learns", async () => {
  const found = await losses("local", local, {});
  expect(found.at(-1)).toBeLessThan(found[0] as number);
});

describe("docs/your-project.md", () => {
  const page = read("docs/your-project.md");
  const programs = new Map(
    [...page.matchAll(/```ts\n\/\/ (\S+)\.mjs\n([\s\S]*?)```/g)].map(([, name, code]) => [
      name as string,
      code as string,
    ]),
  );
  const run = async (name: string): Promise<string[]> => {
    const path = await tool.program(name, programs.get(name) as string);
    return new Promise((resolve, reject) =>
      execFile(process.execPath, [path], { env: tool.environment(), cwd: tool.work }, (error, stdout) =>
        error === null ? resolve(stdout.split("\n").filter((line) => line !== "")) : reject(error),
      ),
    );
  };

  it("has a program for each task, and every block of code is one", () => {
    expect([...programs.keys()]).toEqual(["sft", "rl", "rl-cookbook", "dpo", "home", "watch"]);
    expect(page.match(/^```ts$/gm)?.length).toBe(programs.size);
  });

  it("fine-tunes on the data of the page, and the second time has nothing left to do", async () => {
    const [data = ""] = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, lines]) => lines as string);
    writeFileSync(join(tool.work, "data.jsonl"), data);
    const first = await run("sft");
    expect(first.at(-1)).toBe("complete");
    expect(first.at(-2)).toMatch(/^tinker:\/\/.*\/sampler_weights\/final$/);
    expect(first.filter((line) => /^\d+ \d/.test(line)).length).toBe(2);
    expect(await run("sft")).toEqual(["complete"]);
    // What the program saved is there for the command line: one folder for both.
    const seen = await tool.run(["checkpoint", "list", "--local", "--json"]);
    expect(seen.stdout).toContain(first.at(-2));
    const text = await tool.run(["sample", "Hi", "--local", "--from", "runs/sft", "--max-tokens", "4"]);
    expect(text, text.stderr).toMatchObject({ code: 0 });
    // It comes home, and back again.
    const [bytes, back] = await run("home");
    expect(Number(bytes)).toBeGreaterThan(0);
    expect(back).toMatch(/^\d+ tinker:\/\/.*\/sampler_weights\/sft$/);
    expect(existsSync(join(tool.work, "models", "sft", "adapter_model.safetensors"))).toBe(true);
  });

  it("says what a call waits for", async () => {
    const lines = await run("watch");
    expect(lines.find((line) => line.startsWith("Forward of "))).toMatch(/: (waiting to be submitted|being sent), /);
    expect(lines.at(-1)).toBe("done");
  });

  it("trains on a reward, from scratch and with the cookbook", async () => {
    expect((await run("rl")).map((line) => line.split(" ")[0])).toEqual(["0", "1", "2"]);
    expect((await run("rl-cookbook")).map((line) => line.split(" ")[0])).toEqual(["0", "1", "2", "complete"]);
  });

  it("trains on preferences: the margin grows", async () => {
    const margins = (await run("dpo")).map((line) => Number(line.split(" ")[1]));
    expect(margins.length).toBe(5);
    expect(margins.at(-1)).toBeGreaterThan(margins[0] as number);
  });

  it("every table of prices in it is one", async () => {
    const [, prices = ""] = [...page.matchAll(/```json\n([\s\S]*?)```/g)].map(([, lines]) => lines as string);
    writeFileSync(join(tool.work, "prices.json"), prices);
    expect(Object.keys(await readPrices(join(tool.work, "prices.json")))).toContain("Qwen/Qwen3-8B");
  });
});

it.each(["README.md", "docs/your-project.md", "docs/traces.md"])(
  "every command in %s can be called like that",
  async (page) => {
    const calls = [...read(page).matchAll(/^npx tinklet (.*?)( +#.*)?$/gm)].map(([, words]) => words as string);
    expect(calls.length).toBeGreaterThan(2);
    for (const words of calls) {
      const args = [...words.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => (quoted ?? plain) as string);
      const { command, rest } = findCommand(args);
      expect(command, words).toBeDefined();
      expect(() => parseInput(specs.get(command) as Command, rest), words).not.toThrow();
    }
  },
);

it("every command's help is in docs/cli.md, word for word", async () => {
  const page = read("docs/cli.md");
  expect(page).toContain((await tool.run(["--help"])).stdout.trimEnd());
  const left = commandTable.filter(({ words: [word] }) => word !== "version" && word !== "completions");
  for (const { words } of left) {
    const own = (await tool.run([...words, "--help"])).stdout
      .replace(/\nOptions of every command:\n( {2}.*\n)+/, "")
      .trimEnd();
    expect(page).toContain(`## ${words.join(" ")}\n\`\`\`\n${own}\n\`\`\`\n`);
  }
});

it("the pictures that the pages show are there", () => {
  for (const [file, folder] of [
    ["README.md", ""],
    ["docs/cli.md", "docs/"],
  ] as const) {
    for (const [, path] of read(file).matchAll(/!\[[^\]]*\]\(([^)]+)\)/g))
      expect(read(`${folder}${path}`).length).toBeGreaterThan(1000);
  }
});
