// `node tools/pretrain/stories.mjs FILE [TEMPERATURE]`: fifty stories sampled through our engine at the given temperature (0.6 unless said), one per opening of
// story-openings.json, for people to judge.
import { readFileSync, writeFileSync } from "node:fs";
import { modelPath } from "@tinklet/base-model";
import { openEngine } from "@tinklet/engine";

const openings = JSON.parse(readFileSync(new URL("story-openings.json", import.meta.url), "utf8"));
const engine = await openEngine(modelPath);
const stories = await Promise.all(
  openings.map(async (opening, i) => {
    const prompt = await engine.tokenizer.encode(opening, { addSpecialTokens: false });
    const params = { maxTokens: 320, temperature: Number(process.argv[3] ?? 0.6), seed: 200 + i, stop: [0, 2] };
    const { sequences } = await engine.sample({ prompt, params });
    return opening + (await engine.tokenizer.decode([...sequences[0].tokens], { skipSpecialTokens: true }));
  }),
);
await engine.close();
writeFileSync(process.argv[2], `${JSON.stringify(stories, null, 1)}\n`);
