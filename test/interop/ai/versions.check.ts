/** That a round is what it says: this Node, this AI SDK, and the packed provider, on the bundled model. */
import { versions } from "node:process";
import { pathToFileURL } from "node:url";
import { tinklet } from "@tinklet/ai";
import { generateText, streamText } from "ai";
import { expect, test } from "vitest";
import { installed, manifestOf, sdkName } from "./installed.ts";

const major = (version: string) => Number(version.split(".")[0]);

test("the tests import what was installed", async () => {
  const sdk = (await import(pathToFileURL(installed("ai")).href)) as typeof import("ai");
  expect(sdk.generateText).toBe(generateText);
  const provider = (await import(pathToFileURL(installed("@tinklet/ai")).href)) as typeof import("@tinklet/ai");
  expect(provider.tinklet).toBe(tinklet);
  const round = [major(manifestOf(sdkName()).version), major(versions.node)];
  expect(round).toEqual(sdkName() === "ai6" ? [6, 20] : [7, 22]);
});

test("the bundled model answers, without a server to talk to, whole and streamed", async () => {
  const local = tinklet.local({ dataDir: "memory" });
  try {
    const settings = { model: local("tinklet/base"), prompt: "What is 2 + 3?", maxOutputTokens: 8, temperature: 0 };
    const { text, usage } = await generateText(settings);
    expect(text).toMatch(/^\d+$/);
    expect(usage.outputTokens).toBeGreaterThan(1);
    const { textStream } = streamText(settings);
    let joined = "";
    for await (const piece of textStream) joined += piece;
    expect(joined).toBe(text);
  } finally {
    await local.close();
  }
});
