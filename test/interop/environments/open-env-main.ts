/** Plays the game of `open_env_server.py` through `openEnv` and through a session of its own, and prints what it saw as JSON: `URL`. */
import { fileURLToPath } from "node:url";
import { openEnv, rolloutGroups } from "../../../packages/cookbook/src/index.ts";
import { baseUrl, openSession } from "../../../packages/cookbook/src/openenv/session.ts";
import { ScriptedSampler } from "../../../packages/cookbook/src/testing/scripted-sampler.ts";
import { createChat } from "../../../packages/models/src/chat/index.ts";
import { loadTokenizer, systemClock } from "../../../packages/sdk/src/index.ts";

const [url = "", model = ""] = process.argv.slice(2);
const tokenizer = await loadTokenizer(model.startsWith("file:") ? fileURLToPath(model) : model);
const seen: Record<string, unknown> = {};
const settings = { headers: {}, callTimeoutMs: 30_000, maxReplyBytes: 2 ** 20, clock: systemClock({ ref: true }) };

const socket = await openSession(baseUrl(url), { ...settings, transport: "websocket" });
seen["reset"] = await socket.reset({ seed: 5, episode_id: "mine" });
seen["step"] = await socket.step({ guess: 3 });
seen["state"] = await socket.state();
seen["wrong action"] = await socket.step({ guess: "x" }).catch((error: Error) => error.message);
seen["unknown field"] = await socket.step({ guess: 3, size: 1 }).catch((error: Error) => error.message);
seen["failed"] = await socket.step({ guess: 0 }).catch((error: Error) => error.message);
seen["last"] = await socket.step({ guess: 6 });
socket.close();

const http = await openSession(baseUrl(url), { ...settings, transport: "http" });
seen["http reset"] = await http.reset({ seed: 5 });
seen["http step"] = await http.step({ guess: 4 });
seen["http wrong action"] = await http.step({ size: 1 }).catch((error: Error) => error.message);

// Halving: 5, then 3 or 7, then the neighbours.
const guessing = new ScriptedSampler(tokenizer, (prompt) => {
  const said = [...prompt.matchAll(/(Higher|Lower)/g)].map(([hint]) => (hint === "Higher" ? 1 : -1));
  const guess = said.reduce((at, way, turn) => at + way * (turn === 0 ? 2 : 1), 5);
  return `${guess}<|im_end|>`;
});
const game = (seed: number) =>
  openEnv(url, {
    ...{ chat: createChat(tokenizer), tokenizer, name: `seed ${seed}`, maxTokens: 4, reset: { seed } },
    prompt: ({ hint }) => String(hint),
    action: ({ text }) => ({ guess: Number(text) }),
  });
const play = (size: number) =>
  rolloutGroups(
    Array.from({ length: 9 }, (_, seed) => game(seed)),
    {
      ...{ sampler: guessing, groupSize: size, maxEpisodes: size, maxTurns: 5 },
      strategy: { onFailure: "retry", retries: 0 },
    },
  );
const { groups, failed } = await play(8);
seen["games"] = groups.map(({ name, totalRewards }) => [name, totalRewards]);
seen["failed games"] = failed.length;
const { failed: full } = await play(9);
seen["full server"] = full.map(({ message }) => message)[0];
console.log(JSON.stringify(seen));
process.exit(0);
