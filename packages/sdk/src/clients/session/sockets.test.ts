import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { Datum, ModelInput, SamplingClient, ServiceClient } from "@tinklet/sdk";
import { build } from "esbuild";
import { afterAll, beforeAll, expect, it } from "vitest";
import { listen, type StubListener } from "../../testing/stub-listener.node.ts";
import { type StubOptions, StubServer } from "../../testing/stub-server.ts";
import { listenStubTls } from "../../testing/tls.node.ts";

const open: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of open) await close();
});
const quiet = { debug() {}, info() {}, warn() {}, error() {} };
const prompt = ModelInput.fromInts([1, 2, 3]);

async function serve(options: StubOptions = {}) {
  const stub = new StubServer(options);
  const listener: StubListener = await listen(stub);
  open.push(() => listener.close());
  return { stub, listener };
}

/** The SDK as one file for processes that cannot read TypeScript. */
let bundle: string;
beforeAll(async () => {
  const entry = fileURLToPath(new URL("../../index.ts", import.meta.url));
  const external = ["@huggingface/*", "@opentelemetry/api", "@tinklet/models", "@tinklet/server", "@bokuweb/zstd-wasm"];
  const options = { bundle: true, format: "esm", platform: "node", write: false, external } as const;
  const banner = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
  const { outputFiles } = await build({ ...options, entryPoints: [entry], banner: { js: banner }, logLevel: "error" });
  bundle = outputFiles[0]!.text;
});

/** Runs a module that imports the SDK from `sdk`, as a script. */
function script(
  code: string,
  url: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ status: number | null; stdout: string; stderr: string }> {
  const source = `${bundle.replace(/export\s*\{[\s\S]*\};?\s*$/, "")}\n${code}`;
  const child = spawn(process.execPath, ["--input-type=module", "-"], {
    env: { ...process.env, TINKER_API_KEY: "tml-x", TINKER_BASE_URL: url, TINKER_LOG: "off", ...env },
    cwd: fileURLToPath(new URL("../../../../../", import.meta.url)),
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (piece) => (stdout += piece));
  child.stderr.on("data", (piece) => (stderr += piece));
  child.stdin.end(source);
  return new Promise((resolve) => child.on("exit", (status) => resolve({ status, stdout, stderr })));
}

it("M-801: each purpose talks over sockets of its own", async () => {
  const { listener } = await serve({ config: { fwdbwd_max_chunk_len: 1 } });
  const service = new ServiceClient({ apiKey: "tml-x", baseUrl: listener.url, logger: quiet });
  const trainer = await service.createLoraTrainingClient({ baseModel: "stub/model" });
  const datum = new Datum({ modelInput: prompt, lossFnInputs: { target_tokens: [2, 3, 4] } });
  await trainer.step([datum, datum, datum], "cross_entropy");
  const sampler = await trainer.saveWeightsAndGetSamplingClient();
  await sampler.sample(prompt);
  const rest = service.createRestClient();
  await rest.listSessions();
  await rest.getAuditLog();
  await rest.getCheckpointArchiveUrl("r", "weights/x");
  await service.close(); // sends the telemetry
  const purposes: Record<string, RegExp> = {
    session: /^\/(client|create_session|create_sampling_session|auth|session_heartbeat)/,
    train: /^\/(create_model|forward_backward|optim_step|save_weights|load_weights|get_info|unload)/,
    sample: /^\/asample$/,
    retrieve: /^\/retrieve_future$/,
    redirect: /^\/audit$|\/archive$/,
    telemetry: /^\/telemetry$/,
    rest: /^\/(sessions|training_runs)(?!.*archive)/,
  };
  const purposeOf = (path: string) => Object.keys(purposes).find((name) => purposes[name]!.test(path));
  const bySocket = listener.paths.map((paths) => new Set([...paths].map(purposeOf)));
  expect(bySocket.every((set) => set.size === 1)).toBe(true);
  expect(new Set(bySocket.map((set) => [...set][0]))).toEqual(new Set(Object.keys(purposes)));
});

it("M-701: 2,000 concurrent samples stay within the socket limit, and all return", async () => {
  const { stub, listener } = await serve({ sampleMs: 30 });
  const maxSockets = { retrieve: 120, sample: 20 };
  const service = new ServiceClient({
    apiKey: "tml-x",
    baseUrl: listener.url,
    maxSockets,
    telemetry: false,
    logger: quiet,
  });
  const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
  const futures = Array.from({ length: 2_000 }, (_, i) =>
    sampler.sample(ModelInput.fromInts([i]), { samplingParams: { maxTokens: 1 } }),
  );
  const responses = await Promise.all(futures);
  expect(responses.map(({ sequences }) => sequences[0]?.tokens[0])).toEqual(futures.map((_, i) => i + 1));
  expect(listener.mostOpen).toBeLessThanOrEqual(120 + 20 + 50);
  expect(listener.mostOpen).toBeGreaterThan(60);
  const seqIds = stub.callsOf("asample").map(({ body }) => (body as { seqId: number }).seqId);
  expect(new Set(seqIds).size).toBe(2_000);
  await service.close();
}, 60_000);

it("a script that forgets close() still exits", async () => {
  const { listener, stub } = await serve({ sampleMs: 50 });
  const run = await script(
    `const service = new ServiceClient();
     const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
     const { sequences } = await sampler.sample(ModelInput.fromInts([1]), { samplingParams: { maxTokens: 2 } });
     console.log(sequences[0].tokens.join());`,
    listener.url,
  );
  expect(run).toEqual({ status: 0, stdout: "2,3\n", stderr: "" });
  expect(stub.callsOf("sessionHeartbeat")).toHaveLength(0); // it did not even live for one
}, 30_000);

it("a script that forgets close() still exits with http2, whose sessions stay open between polls", async () => {
  const stub = new StubServer({ sampleMs: 50 });
  const listener = await listenStubTls(stub);
  open.push(() => listener.close());
  const run = await script(
    `const service = new ServiceClient({ http2: true });
     const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
     const { sequences } = await sampler.sample(ModelInput.fromInts([1]), { samplingParams: { maxTokens: 2 } });
     console.log(sequences[0].tokens.join());`,
    listener.url,
    { NODE_TLS_REJECT_UNAUTHORIZED: "0", NODE_NO_WARNINGS: "1" },
  );
  expect(run).toEqual({ status: 0, stdout: "2,3\n", stderr: "" });
  expect(listener.opened.sessions).toBe(1);
}, 30_000);

it("M-506: a future that fails before it is awaited does not end the process, and its error is printed", async () => {
  const { listener } = await serve();
  const run = await script(
    `const service = new ServiceClient({ logLevel: "error" });
     const trainer = await service.createLoraTrainingClient({ baseModel: "stub/model" });
     trainer.optimStep({ learningRate: -1 });
     console.log("still here");`,
    listener.url,
  );
  expect([run.status, run.stdout]).toEqual([0, "still here\n"]);
  expect(run.stderr).toContain("OptimStep failed and is not awaited: learningRate");
}, 30_000);

it("a sampling client works in a worker thread from its handle", async () => {
  const { listener, stub } = await serve();
  const service = new ServiceClient({ apiKey: "tml-x", baseUrl: listener.url, telemetry: false, logger: quiet });
  const sampler = await service.createSamplingClient({ baseModel: "stub/model" });
  await sampler.sample(prompt);
  const source = `${bundle.replace(/export\s*\{[\s\S]*\};?\s*$/, "")}
    import { parentPort, workerData } from "node:worker_threads";
    const sampler = SamplingClient.fromHandle(workerData, { telemetry: false });
    const { sequences } = await sampler.sample(ModelInput.fromInts([7]), { samplingParams: { maxTokens: 2 } });
    await sampler.close();
    parentPort.postMessage([...sequences[0].tokens]);`;
  const url = new URL(
    `data:text/javascript;base64,${Buffer.from(source.replaceAll("import.meta.url", JSON.stringify(import.meta.url))).toString("base64")}`,
  );
  const worker = new Worker(url, { workerData: await sampler.handle() });
  const answer = await new Promise((resolve, reject) => worker.on("message", resolve).on("error", reject));
  expect(answer).toEqual([8, 9]);
  expect(stub.callsOf("createSession")).toHaveLength(1);
  expect(
    new Set(stub.callsOf("asample").map(({ body }) => (body as { samplingSessionId: string }).samplingSessionId)).size,
  ).toBe(1);
  expect(sampler).toBeInstanceOf(SamplingClient);
  await worker.terminate();
  await service.close();
}, 30_000);
