/**
 * A full disk, for real: `full-disk-main URL BASE_MODEL FOLDER` trains and saves against a server whose data folder is on a small
 * file system, fills what is left of it, sees that new work is refused with a reason and accepted work waits, frees the space, and
 * sees that everything goes on. By hand: mount -t tmpfs -o size=6m tmpfs FOLDER.
 */
import { closeSync, ftruncateSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

const [url, baseModel, folder] = process.argv.slice(2) as [string, string, string];
const post = async (path: string, body: unknown) => {
  const answer = await fetch(`${url}/api/v1/${path}`, {
    method: "POST",
    headers: { "x-api-key": "tml-disk", "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: answer.status, json: (await answer.json()) as Record<string, string> };
};
const result = async (requestId: string | undefined) => {
  for (;;) {
    const { json } = await post("retrieve_future", { request_id: requestId });
    if (json["type"] !== "try_again") return json;
    console.log("waiting:", json["queue_state"], json["queue_state_reason"]);
  }
};
const session = (await post("create_session", { tags: [], sdk_version: "x" })).json["session_id"];
const made = await post("create_model", {
  session_id: session,
  model_seq_id: 0,
  base_model: baseModel,
  lora_config: { rank: 8, seed: 1 },
});
const model = (await result(made.json["request_id"]))["model_id"];
await result((await post("save_weights", { model_id: model, seq_id: 1, path: "before" })).json["request_id"]);

// first so full that rows still fit and folders do not, then altogether
const filler = join(folder, "filler");
const fill = (leaveBytes: number) => {
  rmSync(filler, { force: true });
  const file = openSync(filler, "w");
  let size = 0;
  try {
    for (;;) size += writeSync(file, Buffer.alloc(16 << 10));
  } catch {
    ftruncateSync(file, Math.max(0, size - leaveBytes));
  }
  closeSync(file);
};
fill(96 << 10);
const answers: Awaited<ReturnType<typeof post>>[] = [];
for (let seq = 2; seq < 40; seq++) {
  if (seq === 8) fill(0);
  answers.push(await post("save_weights", { model_id: model, seq_id: seq, path: `full-${seq}` }));
}
const refused = answers.filter(({ status }) => status === 503);
console.log(
  "while full:",
  answers.length - refused.length,
  "accepted,",
  refused.length,
  "refused:",
  refused[0]?.json["code"],
);
setTimeout(() => {
  rmSync(filler);
  console.log("there is room again");
}, 3000);
// What was refused is sent again, as clients do, while the accepted are waited for: one of these may stand behind a number that was refused.
await Promise.all(
  answers.map(async (first, i) => {
    let answer = first;
    while (answer.status === 503) {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      answer = await post("save_weights", { model_id: model, seq_id: i + 2, path: `full-${i + 2}` });
    }
    const saved = await result(answer.json["request_id"]);
    if (saved["path"] === undefined) throw new Error(JSON.stringify(saved));
  }),
);
console.log("all", answers.length, "saves are there");
