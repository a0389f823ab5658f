// Records what a release leaves behind, for the releases after it: two data folders of its server over the real engine on a tiny
// model, one closed in order and one killed in the middle of its work, with every result that was handed out before.
//
//   node test/drills/upgrade/upgrade-record.mjs --from CHECKOUT --to test/fixtures/upgrade/NAME
//
// CHECKOUT is a checkout of that release, installed. Files are stored compressed (.gz); upgrade.test.ts opens them.
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

const option = (name, otherwise) => {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? otherwise : process.argv[at + 1];
};
const from = option("from");
if (from === undefined) throw new Error("--from CHECKOUT: an installed checkout of the release to record");
const to = option("to");
if (to === undefined) throw new Error("--to test/fixtures/upgrade/NAME: the folder for the recording");
const target = resolve(to);
/** Where the checkout has its server programs: releases before the folders of `test/` were sorted have them in `test/server`. */
const programs = ["test/fixtures/programs", "test/server"].find((folder) =>
  existsSync(join(resolve(from), folder, "bundle.mjs")),
);
if (programs === undefined)
  throw new Error(`--from ${from}: has no server programs; is it a checkout of this project?`);
const { bundle } = await import(pathToFileURL(join(resolve(from), programs, "bundle.mjs")).href);
const work = mkdtempSync(join(tmpdir(), "tinklet-upgrade-"));
const key = "tml-upgrade";

const start = async (program, options) => {
  const child = spawn(process.execPath, [program, JSON.stringify(options)], { stdio: ["ignore", "pipe", "inherit"] });
  const [url] = await once(createInterface({ input: child.stdout }), "line");
  return { child, url, exited: once(child, "exit") };
};

/** One request; undefined where the server is gone. */
const post = async (url, path, body) => {
  try {
    const answer = await fetch(`${url}/api/v1/${path}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json", accept: "application/x-protobuf" },
      body: JSON.stringify(body),
    });
    return {
      status: answer.status,
      type: answer.headers.get("content-type"),
      body: Buffer.from(await answer.arrayBuffer()),
    };
  } catch {
    return undefined;
  }
};

/** The batch of a step, the same in every release. */
const batch = (step) => {
  const tokens = Array.from({ length: 9 }, (_, i) => (7 * step + 3 * i * i + i) % 250);
  const tensor = (data, dtype) => ({ data, dtype, shape: [data.length] });
  return {
    loss_fn: "cross_entropy",
    data: [
      {
        model_input: { chunks: [{ type: "encoded_text", tokens: tokens.slice(0, -1) }] },
        loss_fn_inputs: {
          target_tokens: tensor(tokens.slice(1), "int64"),
          weights: tensor(Array(8).fill(1), "float32"),
        },
      },
    ],
  };
};

/** What is asked of one model, in order: the programs of both folders, and of the undisturbed run they are held against. */
const calls = [];
for (let step = 0; step < 6; step++) {
  calls.push(["forward_backward", { forward_backward_input: batch(step) }]);
  calls.push(["optim_step", { adam_params: { learning_rate: 0.01, weight_decay: 0.1, grad_clip_norm: 1 } }]);
  if (step === 2) calls.push(["save_weights", { path: "half" }], ["save_weights_for_sampler", { path: "half" }]);
}

const record = async (name, { kill, limits, clean }) => {
  const dataDir = join(work, name);
  const model = join(work, "model");
  const server = await start(await bundle(`${programs}/fake-main.ts`), {
    dataDir,
    model,
    limits,
    ...(kill ? { kill } : {}),
  });
  const { url } = server;
  const results = [];
  const accepted = [];
  const json = (answer) => JSON.parse(answer.body.toString());
  /** Waits for a result and keeps what came, byte for byte. */
  const result = async (requestId) => {
    for (;;) {
      const answer = await post(url, "retrieve_future", { request_id: requestId });
      if (answer === undefined) return undefined;
      const text = answer.type.includes("json") ? json(answer) : {};
      if (text.type === "try_again") continue;
      results.push({ requestId, type: answer.type, body: answer.body.toString("base64") });
      return text;
    }
  };
  const ask = async (path, body) => {
    const answer = await post(url, path, body);
    if (answer === undefined) return undefined;
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.body}`);
    const { request_id: requestId } = json(answer);
    accepted.push({ requestId, path, body });
    return requestId;
  };
  const session = json(await post(url, "create_session", { tags: [], sdk_version: "upgrade" })).session_id;
  const lora = { rank: 2, seed: 3 };
  const made = await ask("create_model", {
    session_id: session,
    model_seq_id: 0,
    base_model: "test/model",
    lora_config: lora,
  });
  const modelId = (await result(made)).model_id;
  // Everything is sent before anything is awaited, so that a kill finds work in every state.
  const requests = [];
  for (const [index, [path, body]] of calls.entries()) {
    requests.push(await ask(path, { model_id: modelId, seq_id: index + 1, ...body }));
  }
  for (const requestId of requests) if (requestId !== undefined) await result(requestId);
  if (clean) {
    const path = `tinker://${modelId}/sampler_weights/half`;
    const sampler = json(
      await post(url, "create_sampling_session", { session_id: session, sampling_session_seq_id: 0, model_path: path }),
    );
    const prompt = { chunks: [{ type: "encoded_text", tokens: [1, 2, 3] }] };
    const sampling = { max_tokens: 6, temperature: 1, seed: 5 };
    const sampled = await ask("asample", {
      sampling_session_id: sampler.sampling_session_id,
      seq_id: 0,
      prompt,
      num_samples: 2,
      sampling_params: sampling,
    });
    await result(sampled);
    server.child.kill("SIGTERM");
  }
  await server.exited;
  writeFileSync(
    join(work, `${name}.json`),
    `${JSON.stringify({ recordedAt: Date.now(), session, modelId, lora, calls, accepted: accepted.map(({ requestId, path }) => ({ requestId, path })), results }, null, 1)}\n`,
  );
  console.log(name, accepted.length, "accepted,", results.length, "handed out");
};

/** Every file of a folder, compressed; what SQLite makes again by itself is left out. */
const store = (folder, to) => {
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    const file = join(folder, name);
    if (!statSync(file).isFile() || name.endsWith("-shm")) continue;
    mkdirSync(dirname(join(to, name)), { recursive: true });
    writeFileSync(join(to, `${name}.gz`), gzipSync(readFileSync(file), { level: 9 }));
  }
};

try {
  const tiny = await start(await bundle(`${programs}/serve-main.ts`), { tiny: join(work, "model") });
  tiny.child.kill("SIGTERM");
  await tiny.exited;
  await record("clean", { clean: true, limits: {} });
  // No snapshot is worth its while here: all that the killed server leaves of its passes is the log of them.
  await record("killed", { kill: { point: "execute.before", after: 11 }, limits: { snapshotWorthMs: 1e9 } });
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  for (const name of ["model", "clean", "killed"]) store(join(work, name), join(target, name));
  for (const name of ["clean", "killed"]) cpSync(join(work, `${name}.json`), join(target, `${name}.json`));
} finally {
  rmSync(work, { recursive: true, force: true });
}
