// The fault drill: workers call a client against a server that breaks in every way the script knows, and what came of
// each call is held against what the server really applied. The same body runs in the test suite (on a fake clock, without
// sockets) and by `node packages/sdk/src/testing/fault-drill-main.mjs` (over sockets, on a clock that runs fast).

import { seededRandom } from "@tinklet/wire/entropy";

const status = (code, more = {}) => ({ kind: "status", status: code, body: { detail: `scripted ${code}` }, ...more });
const delivery = (how, executed) => ({ kind: "delivery", delivery: how, executed });

/** What may happen to a submission; `executed` ones were carried out although the answer says or shows otherwise. */
const submissionFaults = [
  status(408),
  status(409),
  status(429),
  status(429, { headers: { "retry-after-ms": "1500" } }),
  status(500),
  status(502, { executed: true }),
  status(503, { headers: { "retry-after": "2" } }),
  status(503, { executed: true }),
  status(422),
  status(402),
  { kind: "status", status: 400 },
  delivery("reset", false),
  delivery("reset", true),
  delivery("reset_mid_body", true),
  delivery("stall", false),
  delivery("stall", true),
  delivery("stall_mid_body", true),
  delivery("slow_loris", true),
  { kind: "truncated" },
  { kind: "oversized", bytes: 200_000 },
  { kind: "content_type", contentType: "text/html" },
];

/** What may happen to a poll. */
const pollFaults = [
  status(408, { body: { queue_state: "paused_capacity", queue_state_reason: "drill" } }),
  { kind: "status", status: 408 },
  status(410),
  status(429),
  status(500),
  status(503),
  status(400),
  status(402),
  status(404),
  status(409),
  status(403, { headers: { "x-should-retry": "true" } }),
  { kind: "status", status: 400 },
  delivery("reset", false),
  delivery("reset_mid_body", true),
  delivery("stall", false),
  delivery("stall_mid_body", true),
  delivery("slow_loris", true),
  { kind: "truncated" },
  { kind: "oversized", bytes: 200_000 },
  { kind: "content_type", contentType: "application/json" },
  { kind: "content_type", contentType: "application/x-protobuf" },
];

/**
 * What may happen to the poll for all samples of a client. None of these ends it for good: after that each sample is polled for alone, which
 * would end the wait of one whose completion was missed.
 */
const completionFaults = [
  status(408),
  status(409),
  status(429),
  status(500),
  status(503),
  status(402),
  { kind: "status", status: 400 },
  delivery("reset", false),
  delivery("reset", true),
  delivery("reset_mid_body", true),
  delivery("stall", false),
  delivery("stall_mid_body", true),
  delivery("slow_loris", true),
];
const faultsOf = (operation) =>
  ({ retrieveFuture: pollFaults, retrieveFutures: completionFaults })[operation] ?? submissionFaults;

/** One request in `oneIn` breaks; now and then a storm breaks nearly all for a while. */
export function faultScript(seed, oneIn = 8) {
  const next = seededRandom(seed);
  let storm = 0;
  const counts = {};
  const script = ({ operation }) => {
    if (["clientConfig", "clientDynamicConfig", "createSession", "sessionHeartbeat", "telemetry"].includes(operation))
      return;
    if (storm > 0) storm--;
    else if (next() < 1 / 1500) storm = 60;
    if (next() >= (storm > 0 ? 0.9 : 1 / oneIn)) return;
    const faults = faultsOf(operation);
    const fault = faults[Math.floor(next() * faults.length)];
    const name = `${fault.kind === "status" ? `status ${fault.status}${fault.body === undefined ? " bare" : ""}` : (fault.delivery ?? fault.kind)}${fault.executed ? " after it was applied" : ""}`;
    counts[name] = (counts[name] ?? 0) + 1;
    return fault;
  };
  return { script, counts };
}

/**
 * Runs the drill.
 *
 * @param sdk exports of `tinklet`
 * @param options.stub the server
 * @param options.client options of the client
 * @param options.wait lets time pass until a promise settles, or rejects when it never does
 * @returns what happened; `problems` must be empty
 */
export async function drill(sdk, { calls, seed, stub, client, wait, jumpClock = () => {} }) {
  const { ServiceClient, ModelInput, Datum, TinkerError } = sdk;
  const problems = [];
  const unhandled = (error) => problems.push(`unhandled rejection: ${error}`);
  process.on("unhandledRejection", unhandled);
  const lines = [];
  const quiet = (line) => lines.push(line);
  const service = new ServiceClient({
    ...client,
    apiKey: "tml-drill-key",
    maxResponseBytes: 100_000,
    logger: { debug: quiet, info: quiet, warn: quiet, error: quiet },
  });
  const outcomes = { ok: 0, failed: 0 };
  const errors = {};
  const note = (error, what) => {
    outcomes.failed++;
    const typed = error instanceof TinkerError;
    if (!typed) problems.push(`${what}: an error that is not typed: ${error?.stack ?? error}`);
    if (/tml-drill/.test(`${error?.message} ${JSON.stringify(error?.body ?? "")}`))
      problems.push(`${what}: a key in an error`);
    const name = `${error?.name} ${error?.code}`;
    errors[name] = (errors[name] ?? 0) + 1;
  };
  /** A call that may fail, but not hang and not fail in an unknown way. */
  const settle = async (what, future) => {
    try {
      const value = await wait(future, what);
      outcomes.ok++;
      return { ok: true, value };
    } catch (error) {
      // The client's own limit: nothing in this drill lasts that long, so that the sample has waited for something that cannot come.
      if (error?.code === "stuck") problems.push(`${what} is stuck: ${error.message}`);
      if (error?.hang) problems.push(`${what} hangs: ${future.explain?.().text ?? ""}`);
      else note(error, what);
      return { ok: false };
    }
  };
  /** Set-up may take several tries under such conditions. */
  const insist = async (make) => {
    for (;;) {
      try {
        return await wait(make(), "set-up");
      } catch (error) {
        if (error?.hang || !(error instanceof TinkerError)) throw error;
      }
    }
  };

  const datum = (marker) =>
    new Datum({
      modelInput: ModelInput.fromInts([marker, 2, 3]),
      lossFnInputs: { target_tokens: [2, 3, 4], weights: [1, 1, 1] },
    });
  let left = calls;
  const take = () => left-- > 0;

  async function sampling(worker) {
    const next = seededRandom(seed * 37 + worker);
    for (let i = 0; left > 0; ) {
      // A new client now and then, so that a poll for all its samples begins anew.
      const sampler = await insist(() => service.createSamplingClient({ baseModel: "stub/model" }));
      for (const until = i + 60; i < until && left > 0; ) {
        const together = [];
        for (let n = 0; n < 3 && take(); n++) {
          const what = `sample ${worker}/${i}`;
          const token = 100_000 * worker + i++;
          const future = sampler.sample(ModelInput.fromInts([token]), { samplingParams: { maxTokens: 2 } });
          if (next() < 0.05) future.cancel(new TinkerError("cancelled by the drill", { code: "drill_cancel" }));
          together.push(
            settle(what, future).then(({ ok, value }) => {
              if (ok && value.sequences[0].tokens.join() !== `${token + 1},${token + 2}`)
                problems.push(`${what}: another's result`);
            }),
          );
        }
        await Promise.all(together);
        if (next() < 0.06) jumpClock();
      }
    }
  }

  async function training(worker) {
    const trainer = await insist(() => service.createLoraTrainingClient({ baseModel: "stub/model" }));
    const next = seededRandom(seed * 31 + worker);
    /** For each call, in order: what it must look like to the server, and whether it succeeded. */
    const made = [];
    while (take()) {
      const together = [];
      for (let n = 0; n < 4 && (n === 0 || take()); n++) {
        const marker = made.length + 1;
        const kind = next();
        const chunks = kind < 0.3 ? 3 : 1;
        const record = {
          marker,
          kind: kind < 0.6 ? "ForwardBackward" : "OptimStep",
          chunks,
          ok: false,
          cancelled: false,
        };
        made.push(record);
        const future =
          record.kind === "OptimStep"
            ? trainer.optimStep({ learningRate: marker })
            : trainer.forwardBackward(
                Array.from({ length: chunks }, () => datum(marker)),
                "cross_entropy",
              );
        if (next() < 0.05) {
          record.cancelled = true;
          future.cancel(new TinkerError("cancelled by the drill", { code: "drill_cancel" }));
        }
        together.push(
          settle(`train ${worker}/${marker}`, future).then(({ ok }) => {
            record.ok = ok;
          }),
        );
      }
      await Promise.all(together);
    }
    return { modelId: trainer.modelId, made };
  }

  async function listing() {
    const rest = service.createRestClient();
    while (take()) await settle("list", rest.listTrainingRuns({ limit: 5 }));
  }

  try {
    await insist(() => service.connect());
    const trainers = Array.from({ length: 8 }, (_, i) => training(i));
    const others = [...Array.from({ length: 24 }, (_, i) => sampling(i)), listing()];
    const trained = await Promise.all(trainers);
    await Promise.all(others);
    for (const { modelId, made } of trained) checkOrder(stub, modelId, made, problems);
  } finally {
    await wait(service.close(), "close");
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", unhandled);
  }
  if (stub.conflicts !== 0) problems.push(`${stub.conflicts} numbers were used for two different requests`);
  if (lines.some((line) => line.includes("tml-drill"))) problems.push("a key in the log");
  const polls = stub.callsOf("retrieveFutures").length;
  return { outcomes, errors, problems, requests: stub.calls.length, repeats: stub.repeats, polls };
}

/** Every request applied at most once, in the order of the calls, and those that succeeded all of them. */
function checkOrder(stub, modelId, made, problems) {
  const seen = new Map();
  let last = 0;
  for (const { kind, forwardOnly, body } of stub.applied(modelId)) {
    if (forwardOnly) continue; // fills a hole, changes nothing
    const marker =
      kind === "OptimStep" ? body.adamParams.learningRate : body.forwardBackwardInput.data[0].modelInput.toInts()[0];
    if (marker < last) problems.push(`${modelId}: call ${marker} was applied after call ${last}`);
    last = marker;
    seen.set(marker, (seen.get(marker) ?? 0) + 1);
    if (made[marker - 1]?.kind !== kind) problems.push(`${modelId}: call ${marker} was applied as ${kind}`);
  }
  for (const { marker, ok, chunks, kind } of made) {
    const times = seen.get(marker) ?? 0;
    const most = kind === "OptimStep" ? 1 : chunks;
    if (times > most) problems.push(`${modelId}: call ${marker} was applied ${times} times, not ${most}`);
    if (ok && times !== most)
      problems.push(`${modelId}: call ${marker} succeeded, but ${times} of ${most} parts were applied`);
  }
}
