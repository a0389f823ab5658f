/**
 * A server's data folder from a process of its own, for file systems that are changed between two looks: `folders-main use FOLDER` opens
 * it and tells what identifies its content, `folders-main try FOLDER` starts a server on it and tells how that ends.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createServer } from "../../../packages/server/src/server.ts";
import { openStore } from "../../../packages/server/src/store/store.ts";
import { fakeEngine } from "../../../packages/server/src/testing/fake-engine.ts";

const [action, dataDir] = process.argv.slice(2) as ["use" | "try", string];

async function use(): Promise<unknown> {
  const store = await openStore({ dataDir });
  const secret = createHash("sha256").update(store.secret).digest("hex");
  await store.close();
  return secret;
}

async function tryToStart(): Promise<unknown> {
  const before = content();
  const models = [{ name: "test/model", open: async () => fakeEngine() }];
  try {
    await (await createServer({ models, dataDir, log: "off" })).close();
    return "started";
  } catch (error) {
    const { name, code, message } = error as { name: string; code?: string; message: string };
    return { name, code, message, untouched: content() === before };
  }
}

/** Names and digests of everything in the folder. */
function content(): string {
  const names = readdirSync(join(dataDir, ".."), { recursive: true, encoding: "utf8" }).sort();
  const lines = names.map((name) => {
    const file = join(dataDir, "..", name);
    return `${name} ${statSync(file).isFile() ? createHash("sha256").update(readFileSync(file)).digest("hex") : ""}`;
  });
  return lines.join("\n");
}

console.log(JSON.stringify(action === "use" ? await use() : await tryToStart()));
