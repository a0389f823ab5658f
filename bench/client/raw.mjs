// The requests of `load.mjs` without an SDK: `node raw.mjs URL CALLS`. One sample through the SDK is recorded; then undici's `dispatch` sends
// submissions and polls with the same headers and bodies of the same sizes, over pools of the same sizes, and reads the answers' bytes. Prints
// calls and CPU seconds of this process as JSON.
import { subscribe } from "node:diagnostics_channel";
import { Agent } from "undici";
import { ModelInput, ServiceClient } from "../../packages/sdk/dist/index.js";

const [url, calls] = [process.argv[2], Number(process.argv[3])];
const recorded = {};
subscribe("undici:request:create", ({ request }) => {
  const name = request.path.split("/").at(-1);
  const headers = request.headers.flatMap((value, at) => (at % 2 === 0 ? [[value, request.headers[at + 1]]] : []));
  recorded[name] = { path: request.path, headers: Object.fromEntries(headers), body: String(request.body) };
});
const service = new ServiceClient({ apiKey: "tml-bench", baseUrl: url });
const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
const prompt = ModelInput.fromInts(Array.from({ length: 64 }, (_, i) => 1000 + i));
await sampler.sample(prompt, { samplingParams: { maxTokens: 32 } });
const { asample, retrieve_future: retrieve } = recorded;
const agents = { sample: new Agent({ connections: 50 }), retrieve: new Agent({ connections: 2_000 }) };

function send(agent, { path, headers }, body) {
  return new Promise((resolve, reject) => {
    const pieces = [];
    agent.dispatch(
      { origin: url, path, method: "POST", headers, body, headersTimeout: 0, bodyTimeout: 0 },
      {
        onRequestStart() {},
        onResponseStart(_, status) {
          if (status !== 200) reject(new Error(`status ${status}`));
        },
        onResponseData: (_, piece) => pieces.push(piece),
        onResponseEnd: () => resolve(pieces.length === 1 ? pieces[0] : Buffer.concat(pieces)),
        onResponseError: (_, error) => reject(error),
      },
    );
  });
}

let number = 1_000_000;
const oldId = /"request_id":"[^"]*"/;
async function sample() {
  const submission = await send(agents.sample, asample, asample.body.replace(/"seq_id":\d+/, `"seq_id":${number++}`));
  const [id] = oldId.exec(submission.toString());
  return send(agents.retrieve, retrieve, retrieve.body.replace(oldId, id));
}
const round = (n) => Promise.all(Array.from({ length: n }, sample));
const answers = await round(200); // connections, compiled code
if (answers.some((bytes) => bytes.length < 100)) throw new Error("an answer is no sample");
const before = process.cpuUsage();
for (let done = 0; done < calls; done += 2_000) await round(2_000);
const { user, system } = process.cpuUsage(before);
console.log(JSON.stringify({ calls, cpu: (user + system) / 1e6 }));
process.exit(0);
