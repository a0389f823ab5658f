// A request log and what makes two of them comparable: ids, timings and the names of SDK and runtime are normalised; what
// runs concurrently is put into a fixed order; everything else must be equal. The differences that remain by design are
// `explained`, each with its reason, and each must really occur.

/** Headers that name the SDK, the runtime or the connection, not the request. */
const namingHeaders = new Set([
  "host",
  "connection",
  "content-length",
  "user-agent",
  "x-stainless-os",
  "x-stainless-arch",
  "x-stainless-runtime",
  "x-stainless-runtime-version",
  "x-stainless-async",
  "x-stainless-package-version",
]);

/** One request as it goes into a log. `decode` reads the binary training request. */
export function entry({ method, path, headers, body }, decode) {
  const kept = {};
  for (const name of Object.keys(headers).sort()) {
    if (!namingHeaders.has(name)) kept[name] = normalHeader(name, headers[name]);
  }
  const text = () => new TextDecoder().decode(body);
  const binary = headers["content-type"] === "application/x-protobuf";
  return {
    method,
    path: path.replace(/^.*\/api\/v1/, ""),
    headers: kept,
    body: body.length === 0 ? null : binary ? trainingRequest(decode(body)) : versionless(JSON.parse(text())),
  };
}

/** Which release a program says it is, is no difference between two of them. */
const versionless = (body) => ("sdk_version" in body ? { ...body, sdk_version: "<version>" } : body);

function normalHeader(name, value) {
  if (name === "x-idempotency-key") return "<uuid>";
  if (name === "x-tinker-create-promise-roundtrip-time") return "<seconds>";
  if (name === "x-stainless-read-timeout") return String(Number(value));
  return value;
}

const plain = (values) => Array.from(values, Number);

function trainingRequest({ modelId, seqId, forwardOnly, forwardBackwardInput }) {
  const { data, lossFn, lossFnConfig } = forwardBackwardInput;
  return {
    modelId,
    seqId,
    forwardOnly: forwardOnly === true,
    lossFn,
    lossFnConfig: lossFnConfig ?? {},
    data: data.map((datum) => ({
      ...(datum.modelInputSpans === undefined
        ? {}
        : { modelInputSpans: datum.modelInputSpans, lossFnInputSpans: datum.lossFnInputSpans }),
      modelInput: datum.modelInput.chunks.map((chunk) => ({ ...chunk, tokens: plain(chunk.tokens) })),
      lossFnInputs: Object.fromEntries(
        Object.entries(datum.lossFnInputs)
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, tensor]) => [key, { dtype: tensor.dtype, shape: tensor.shape, values: plain(tensor.values) }]),
      ),
    })),
  };
}

/** Background traffic whose moment is chance. */
const background = new Set(["/session_heartbeat", "/telemetry"]);

/**
 * The log in a fixed order: the requests that are not polls as they came, except that parallel chunks (all but the first,
 * which comes last) and concurrent samples are sorted; then the polls, sorted, with their request ids replaced.
 */
export function ordered(log) {
  const named = log.filter(({ path }) => !background.has(path));
  const requests = named.filter(({ path }) => path !== "/retrieve_future");
  const out = [];
  for (let i = 0; i < requests.length; ) {
    let end = i + 1;
    const { path } = requests[i];
    if (path === "/asample" || path === "/forward_backward") {
      while (requests[end]?.path === path) end++;
    }
    const run = requests.slice(i, end);
    out.push(...(path === "/asample" ? samplesSorted(run) : path === "/forward_backward" ? chunksSorted(run) : run));
    i = end;
  }
  const polls = named
    .filter(({ path }) => path === "/retrieve_future")
    .map((poll) => ({ ...poll, body: { ...poll.body, request_id: "<id>" } }))
    .map((poll) => JSON.stringify(poll))
    .sort()
    .map((poll) => JSON.parse(poll));
  return [...out, ...polls];
}

/** Which of several concurrent samples gets which number is chance; that the numbers are these is not. */
function samplesSorted(run) {
  const numbers = run.map(({ body }) => body.seq_id).sort((a, b) => a - b);
  const content = ({ body: { seq_id: _, ...body } }) => JSON.stringify(body);
  return [...run]
    .sort((a, b) => (content(a) < content(b) ? -1 : 1))
    .map((request, i) => ({ ...request, body: { ...request.body, seq_id: numbers[i] } }));
}

/** In a batch whose first chunk comes last, the others come in any order. */
function chunksSorted(run) {
  const last = run.at(-1);
  if (run.some(({ body }) => body.seqId < last.body.seqId)) return run;
  return [...run.slice(0, -1).sort((a, b) => a.body.seqId - b.body.seqId), last];
}

const drop = (name) => (log) =>
  log.map((request) => {
    const { [name]: _, ...headers } = request.headers;
    return { ...request, headers };
  });

/** Until the server has answered once an attempt takes at most 15 s, less what has passed already. */
const isFirst = (seconds) => seconds > 10 && seconds <= 15;

/** The first fetch of each configuration. */
function once(log) {
  const seen = new Set();
  return log.filter(({ path }) => {
    const again = path.startsWith("/client/") && seen.has(path);
    seen.add(path);
    return !again;
  });
}

/**
 * The differences that stay. `ours` and `theirs` change a log so that the difference is gone; a difference that changes
 * neither log has ceased to exist and must leave the list.
 */
const always = [
  {
    name: "one configuration for all",
    why: "The Python SDK fetches client and dynamic configuration once for sessions and once more for REST; here one service has one.",
    ours: once,
    theirs: once,
  },
  {
    name: "a short first attempt",
    why: "Until the server has answered once an attempt takes at most 15 s, so that a wrong URL shows soon.",
    ours: (log) =>
      log.map((request) =>
        isFirst(Number(request.headers["x-stainless-read-timeout"]))
          ? { ...request, headers: { ...request.headers, "x-stainless-read-timeout": "60" } }
          : request,
      ),
  },
  {
    name: "accept-encoding",
    why: "The packings offered are those that the HTTP library of each can undo.",
    ours: drop("accept-encoding"),
    theirs: drop("accept-encoding"),
  },
  {
    name: "accept said once",
    old: true, // the archive is gone from newer releases
    why: "For an archive the Python SDK says twice that it takes JSON.",
    theirs: (log) =>
      log.map((request) =>
        request.headers.accept === "application/json, application/json"
          ? { ...request, headers: { ...request.headers, accept: "application/json" } }
          : request,
      ),
  },
  {
    name: "x-stainless-raw-response",
    why: "Says which method of the Python SDK read the answer; the server does nothing with it.",
    theirs: drop("x-stainless-raw-response"),
  },
];

/** What is so with the oldest release alone. */
const explainedOld = [
  {
    name: "the method's name",
    why: "Since 0.28 REST calls say which release and which method they come from.",
    ours: (log) => drop("x-sdk-method")(drop("x-sdk-version")(log)),
  },
];

/** What a request carries without saying anything; newer releases send it all the same. */
const idleFields = { topk_sample_logprobs: 0, prompt_alt_tokens_k: 0, record_stability_info: false };

/** What is so with the newest release alone. */
const explainedNew = [
  {
    name: "a short goodbye",
    why: "The end of a session is told within 5 s: a server that is gone must not keep a program from ending.",
    ours: (log) =>
      log.map((request) =>
        request.path.endsWith("/finish")
          ? { ...request, headers: { ...request.headers, "x-stainless-read-timeout": "60" } }
          : request,
      ),
  },
  {
    name: "only what carries something",
    why: "0.36.0 sends new fields with their defaults, too; here servers of 0.25 get the requests that they know.",
    theirs: (log) =>
      log.map((request) => {
        const body = { ...request.body };
        for (const [field, idle] of Object.entries(idleFields)) if (body[field] === idle) delete body[field];
        if (body.optimizer_config?.type === "adamw") delete body.optimizer_config;
        return request.body === null ? request : { ...request, body };
      }),
  },
];

/** Both logs without the explained differences, and the names of those that did not occur. */
export function comparable(ours, theirs, differences = explained["0.25.0"]) {
  let left = ours;
  let right = theirs;
  const idle = [];
  for (const { name, ours: changeOurs = (log) => log, theirs: changeTheirs = (log) => log } of differences) {
    const before = JSON.stringify([left, right]);
    left = changeOurs(left);
    right = changeTheirs(right);
    if (JSON.stringify([left, right]) === before) idle.push(name);
  }
  return { ours: ordered(left), theirs: ordered(right), idle };
}

/** The differences with a release. */
export const explained = {
  "0.25.0": [...always, ...explainedOld],
  "0.36.0": [...always.filter(({ old }) => old !== true), ...explainedNew],
};
