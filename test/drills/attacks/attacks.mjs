// Attacks on a server of this checkout, or of another one that is built, one for each row of the hostile review that is not an attack on grammars
// (`grammar-fuzz.md` has those): what the attacker is answered, how long others wait meanwhile, and the memory of the process. Loopback, a few
// minutes, ends by itself. `npm run drill -- attacks [--checkout FOLDER] [--only NAME]`
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

const { values } = parseArgs({
  options: { checkout: { type: "string", default: process.cwd() }, only: { type: "string" } },
});
const command = join(values.checkout, "packages/tinklet/bin/tinklet.mjs");
const [attacker, other] = ["tml-attacker", "tml-other"];
const model = "tinklet/base";
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const tokens = (length) => Array.from({ length }, (_, i) => 40 + (i % 50));

/** Starts a server; its folder and keys stay for a second start. */
async function start(folder, keys = [attacker, other]) {
  const file = join(folder, "keys");
  const line = (name, key) => `${name} sha256:${createHash("sha256").update(key).digest("hex")}`;
  writeFileSync(file, keys.map((key, i) => line(["attacker", "other"][i], key)).join("\n"));
  const args = ["serve", "--port", "0", "--no-studio", "--api-keys", file, "--log", "json"];
  const env = { ...process.env, TINKLET_DATA_DIR: join(folder, "data"), HOME: folder, XDG_DATA_HOME: folder };
  const child = spawn(process.execPath, [command, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let url;
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on("line", (text) => {
      url ??= /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
    });
  for (let waited = 0; url === undefined; waited += 100) {
    if (waited > 120_000 || child.exitCode !== null) throw new Error("the server did not start");
    await sleep(100);
  }
  const send = (key, path, body, headers = {}) =>
    fetch(`${url}${path}`, {
      method: "POST",
      headers: { "x-api-key": key, authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: typeof body === "string" || body instanceof FormData ? body : JSON.stringify(body),
      ...(body instanceof FormData ? { headers: { "x-api-key": key } } : {}),
    });
  const api = async (key, operation, body) => (await send(key, `/api/v1/${operation}`, body)).json();
  const result = async (key, operation, body) => {
    const sent = await api(key, operation, body);
    if (sent.request_id === undefined) return sent;
    for (;;) {
      const answer = await send(key, "/api/v1/retrieve_future", { request_id: sent.request_id });
      const found = /json/.test(answer.headers.get("content-type")) ? await answer.json() : { bytes: true };
      if (found.type !== "try_again") return found;
    }
  };
  return { url, child, send, api, result, port: Number(new URL(url).port) };
}

const rssOf = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1000;

/** What others see until `over` has ended: their longest wait, and how many were refused. */
async function besides(server, over) {
  const seen = { longestMs: 0, longestHealthMs: 0, answered: 0, refused: 0, mostRss: 0 };
  let isOver = false;
  const end = over.finally(() => {
    isOver = true;
  });
  end.catch(() => {});
  do {
    const started = performance.now();
    const health = fetch(`${server.url}/api/v1/healthz`).then(async (answer) => {
      await answer.text();
      seen.longestHealthMs = Math.max(seen.longestHealthMs, performance.now() - started);
    });
    const answer = await server
      .send(other, "/v1/completions", { model, prompt: "Hi", max_tokens: 1 })
      .catch(() => ({ status: 0, text: async () => "" }));
    await answer.text();
    await health.catch(() => {});
    seen.longestMs = Math.max(seen.longestMs, performance.now() - started);
    if (answer.status === 200) seen.answered++;
    else seen.refused++;
    seen.mostRss = Math.max(seen.mostRss, rssOf(server.child.pid));
    await sleep(20);
  } while (!isOver);
  return { ...seen, result: await end };
}

/** A socket that sends headers, or a whole request, and does not read. */
const socketOf = (port, text) =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(text);
      resolve(socket);
    });
    socket.on("error", () => resolve(socket));
  });

const importing = (config, weights) => {
  const form = new FormData();
  form.set("base_model", model);
  form.set("name", "x");
  form.set("adapter_config.json", new Blob([config]));
  form.set("adapter_model.safetensors", new Blob([weights]));
  return form;
};

const answered = async (sent) => {
  const started = performance.now();
  const answer = await sent;
  const text = await answer.text();
  return `${answer.status} after ${((performance.now() - started) / 1000).toFixed(1)} s (${text.length} bytes)`;
};

const attacks = {
  "3 import, a configuration of 100 MB": (server) =>
    answered(
      server.send(attacker, "/api/v1/tinklet/import_adapter", importing(`{"r":[${"0,".repeat(50e6)}0]}`, "xxxxxxxx")),
    ),
  "3 import, 100,000 empty tensors": (server) => {
    const header = JSON.stringify(
      Object.fromEntries(
        Array.from({ length: 100_000 }, (_, i) => [
          `base_model.model.x${i}.lora_A.weight`,
          { dtype: "F32", shape: [0, 1], data_offsets: [0, 0] },
        ]),
      ),
    );
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    const config = '{"peft_type":"LORA","r":4,"lora_alpha":8,"target_modules":["q_proj"]}';
    return answered(
      server.send(
        attacker,
        "/api/v1/tinklet/import_adapter",
        importing(config, Buffer.concat([length, Buffer.from(header)])),
      ),
    );
  },
  "4 headers alone, 1,537 sockets": async (server) => {
    const head = `POST /api/v1/forward_backward HTTP/1.1\r\nhost: localhost\r\nx-api-key: ${attacker}\r\ncontent-type: application/json\r\ncontent-length: 1048576\r\n\r\n`;
    const sockets = await Promise.all(Array.from({ length: 1537 }, () => socketOf(server.port, head)));
    await sleep(5000);
    const open = sockets.filter((socket) => !socket.destroyed).length;
    for (const socket of sockets) socket.destroy();
    return `${open} sockets open after 5 s`;
  },
  "5 custom loss, an axis of 40 million beside none": async (server) => {
    const session = (
      await server.api(attacker, "create_session", { tags: [], user_metadata: {}, sdk_version: "0.36.0" })
    ).session_id;
    const created = await server.result(attacker, "create_model", {
      session_id: session,
      model_seq_id: 0,
      base_model: model,
      lora_config: { rank: 4 },
    });
    const node = (op, name, target, args) => ({ op, name, target, args, kwargs: {} });
    const ref = (name) => ({ ref: name });
    const graph = {
      format: 1,
      nodes: [
        node("placeholder", "logprobs", "logprobs", []),
        node("call_function", "empty", "operator.getitem", [ref("logprobs"), { slice: [0, 0, null] }]),
        node("call_method", "wide", "view", [ref("empty"), 0, 40_000_000]),
        node("call_function", "huge", "torch.logsumexp", [ref("wide"), 0]),
        node("call_method", "loss", "sum", [ref("logprobs")]),
        node("output", "output", "output", [{ tuple: [ref("loss"), { dict: {} }] }]),
      ],
    };
    const made = await server.result(attacker, "create_custom_loss", {
      session_id: session,
      custom_loss_seq_id: 0,
      name: "wide",
      inputs: [{ name: "logprobs", rank: 1 }],
      graph,
    });
    if (made.loss_id === undefined)
      return `refused: ${String(made.error ?? made.detail ?? JSON.stringify(made)).slice(0, 100)}`;
    const list = (data, dtype) => ({ data, dtype, shape: [data.length] });
    const datum = {
      model_input: { chunks: [{ type: "encoded_text", tokens: tokens(8) }] },
      loss_fn_inputs: {
        target_tokens: list(tokens(8), "int64"),
        weights: list(
          tokens(8).map(() => 1),
          "float32",
        ),
      },
    };
    const pass = await server.result(attacker, "forward_backward", {
      model_id: created.model_id,
      seq_id: 1,
      forward_backward_input: { data: [datum], loss_fn: "custom", loss_fn_config: { loss_id: made.loss_id } },
    });
    return pass.error === undefined ? "the pass succeeds" : `refused: ${String(pass.error).slice(0, 100)}`;
  },
  "7 echo, log-probs and n 256 of 1,022 tokens": (server) =>
    answered(
      server.send(attacker, "/v1/completions", {
        model,
        prompt: tokens(1022),
        echo: true,
        logprobs: 5,
        n: 256,
        max_tokens: 1,
      }),
    ),
  "8 forty answers that nobody reads": async (server) => {
    const body = JSON.stringify({ model, prompt: tokens(1000), echo: true, logprobs: 5, n: 16, max_tokens: 1 });
    const request = `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${attacker}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const sockets = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const socket = await socketOf(server.port, request);
        socket.pause();
        return socket;
      }),
    );
    await sleep(110_000);
    const open = sockets.filter((socket) => !socket.destroyed).length;
    const rss = rssOf(server.child.pid);
    for (const socket of sockets) socket.destroy();
    return `after 110 s ${rss.toFixed(0)} MB, ${open} sockets`;
  },
  "10 long replies beside short ones, 30 s": async (server) => {
    const until = performance.now() + 30_000;
    const replies = { long: 0, short: 0 };
    const drawn = { long: 0, short: 0 };
    const loop = async (key, kind, maxTokens, prompt) => {
      while (performance.now() < until) {
        const answer = await server.send(key, "/v1/completions", { model, prompt, max_tokens: maxTokens });
        const body = await answer.json();
        if (answer.status !== 200) {
          await sleep(100);
          continue;
        }
        replies[kind]++;
        drawn[kind] += body.usage.completion_tokens;
      }
    };
    await Promise.all([
      ...Array.from({ length: 80 }, () => loop(attacker, "long", 200, tokens(4))),
      ...Array.from({ length: 80 }, () => loop(other, "short", 4, tokens(200))),
    ]);
    return `${replies.long} long replies (${drawn.long} tokens drawn), ${replies.short} short ones (${drawn.short} drawn, ${replies.short * 200} of prompts)`;
  },
};

/** Row 6 needs two starts. */
async function replacedKey(folder) {
  const first = await start(folder);
  const exchange = (server, credential) =>
    server
      .send(credential, "/api/v1/auth/token", {}, { authorization: "" })
      .then(async (answer) => [answer.status, await answer.json()]);
  const [, { jwt, token = jwt }] = await exchange(first, attacker);
  first.child.kill("SIGTERM");
  await once(first.child, "exit");
  const second = await start(folder, ["tml-another-key", other]);
  const [status] = token === undefined ? ["no token"] : await exchange(second, token);
  const listed =
    token === undefined
      ? undefined
      : await fetch(`${second.url}/api/v1/training_runs`, { headers: { "x-api-key": token } });
  second.child.kill("SIGTERM");
  await once(second.child, "exit");
  return `the old token: new token ${status}, listing of runs ${listed?.status}`;
}

for (const [name, attack] of Object.entries({ ...attacks, "6 a token of a replaced key": undefined })) {
  if (values.only !== undefined && !name.startsWith(`${values.only} `)) continue;
  const folder = mkdtempSync(join(tmpdir(), "tinklet-attack-"));
  try {
    if (attack === undefined) {
      console.log(JSON.stringify({ name, result: await replacedKey(folder) }));
      continue;
    }
    const server = await start(folder);
    await (await server.send(other, "/v1/completions", { model, prompt: "Hi", max_tokens: 1 })).text();
    const before = rssOf(server.child.pid);
    const limit = sleep(150_000).then(() => "no answer in 150 s");
    const attacking = name.startsWith("10") ? attack(server) : undefined;
    const seen = await besides(server, Promise.race([attacking ?? attack(server), limit]));
    await sleep(3000);
    const gone = server.child.exitCode !== null;
    console.log(
      JSON.stringify({
        name,
        result: seen.result,
        othersMs: Math.round(seen.longestMs),
        healthMs: Math.round(seen.longestHealthMs),
        answered: seen.answered,
        refused: seen.refused,
        rss: [before, seen.mostRss, gone ? 0 : rssOf(server.child.pid)].map(Math.round),
      }),
    );
    server.child.kill("SIGKILL");
  } catch (error) {
    console.log(JSON.stringify({ name, failed: String(error) }));
  } finally {
    await sleep(500);
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}
process.exit(0);
