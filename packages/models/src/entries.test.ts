/** The entries without `node:` imports, bundled for a browser and run in a context without Node globals. */
import { fileURLToPath } from "node:url";
import { createContext, runInContext } from "node:vm";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { tinyTokenizer } from "./testing/tiny-tokenizer.ts";

const bundle = async (entry: string) => {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL(`./${entry}/index.ts`, import.meta.url))],
    bundle: true,
    write: false,
    metafile: true,
    format: "iife",
    globalName: "entry",
    platform: "browser",
    target: "es2022",
    logLevel: "silent",
  });
  const imports = Object.values(metafile.inputs).flatMap((input) => input.imports);
  expect(imports.filter(({ external }) => external)).toEqual([]);
  return outputFiles[0]?.text as string;
};

test.each(["tokenizer", "chat", "config", "bytes"])(
  "@tinklet/models/%s does not import Node modules",
  async (entry) => {
    const context = createContext({ TextEncoder, TextDecoder, URL });
    runInContext(await bundle(entry), context);
    expect(Object.keys(runInContext("entry", context) as object).length).toBeGreaterThan(0);
  },
);

test("a tokenizer built from files works in a browser", async () => {
  const context = createContext({ TextEncoder, TextDecoder, URL, files: tinyTokenizer });
  runInContext(await bundle("tokenizer"), context);
  const made = `const tokenizer = entry.tokenizerFromFiles(files, "it");
    JSON.stringify([
      tokenizer.encode("hello world"),
      tokenizer.decode([259, 264]),
      tokenizer.applyChatTemplate([{ role: "user", content: "hello" }], { tokenize: false }),
    ])`;
  expect(JSON.parse(runInContext(made, context) as string)).toEqual([
    [265, 259, 264],
    "hello world",
    "<|begin|><|im_start|>user\nhello<|im_end|>\n",
  ]);
});
