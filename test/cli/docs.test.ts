// What the README and the command line's page print is what happens: the programs run, and every command's help is the program's.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { fakeEngine } from "../../packages/server/src/testing/fake-engine.ts";
import { commandTable } from "../../packages/tinklet/src/cli/commands.ts";
import { Executable, fakeServer, tokenizer } from "./executable.ts";

vi.setConfig({ testTimeout: 120_000 }); // many processes: a busy machine is no failure
const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

let tool: Executable;
beforeAll(async () => {
  tool = await Executable.build({ server: true });
}, 60_000);
afterAll(() => tool?.remove());

const [hosted = "", local = "", ...others] = [...read("README.md").matchAll(/```ts\n([\s\S]*?)```/g)].map(
  ([, code]) => code as string,
);

/** Runs a program of the README, as it is printed, and returns the losses that it tells. */
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

it("the README has two programs of at most 15 lines, the second for this machine", () => {
  expect(others).toEqual([]);
  for (const code of [hosted, local])
    expect(code.split("\n").filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(15);
  const changed = hosted.split("\n").filter((line, at) => line !== local.split("\n")[at]);
  expect(changed.length).toBe(3); // where the server is, which model, which rate
});

it("the README's program for the hosted service runs as printed", async () => {
  const open = async () => fakeEngine({ vocabSize: 4096, contextLength: 512 });
  const server = await fakeServer({ models: [{ name: "Qwen/Qwen3-8B", open, tokenizerId: tokenizer }] });
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
