/**
 * A server that loses models by a script, over the SDK's stub server. It corrupts a model (the server goes on, its results are worth
 * nothing, and only its record says so), evicts it (alone, or with its newest checkpoint), or ends its session. The weights of a checkpoint
 * are the list of all passes and optimizer steps that led to it: two checkpoints with equal lists have equal weights.
 */
import type { Datum, FetchLike } from "@tinklet/sdk";
import { FakeClock, type Fault, type StubCall, StubServer } from "@tinklet/sdk/testing";

export type LossKind = "corrupted" | "evicted" | "evicted_with_checkpoint" | "session_ended";
export const lossKinds: readonly LossKind[] = ["corrupted", "evicted", "evicted_with_checkpoint", "session_ended"];

/** A loss before the request with this number, counted over the requests for models and samples. */
export interface PlannedLoss {
  readonly at: number;
  readonly kind: LossKind;
}

interface Fields {
  readonly modelId?: string;
  readonly sessionId?: string;
  readonly modelSeqId?: number;
  readonly samplingSessionId?: string;
  readonly requestId?: string;
  readonly path?: string;
  readonly tinkerPath?: string;
  readonly optimizer?: boolean;
}

const background = ["clientConfig", "clientDynamicConfig", "createSession", "sessionHeartbeat", "telemetry"];
const missing = (what: string, id: string): Fault => ({
  kind: "status",
  status: 404,
  body: { detail: `There is no ${what} ${JSON.stringify(id)} of this key.` },
});

export class LossyServer {
  readonly clock = new FakeClock();
  readonly stub: StubServer;
  /** Losses that came to pass. */
  readonly done: PlannedLoss[] = [];
  /** Requests for a lost model that came after its replacement. */
  readonly stale: string[] = [];
  /** Requests for models and samples so far. */
  requests = 0;
  readonly #plan: PlannedLoss[];
  readonly #lost = new Map<string, LossKind>();
  /** How many requests a model had applied when it was corrupted. */
  readonly #soundUntil = new Map<string, number>();
  readonly #endedSessions = new Set<string>();
  readonly #goneCheckpoints = new Set<string>();
  /** The checkpoint that a model was made from, where one request did both. */
  readonly #madeFrom = new Map<string, string>();
  readonly #modelOfRequest = new Map<string, string>();
  readonly #modelOfKey = new Map<string, string>();
  readonly #replaced = new Set<string>();
  #current: string | undefined;

  constructor(plan: readonly PlannedLoss[], config: Readonly<Record<string, unknown>> = {}) {
    this.#plan = [...plan].sort((a, b) => a.at - b.at);
    this.stub = new StubServer({ clock: this.clock, config, faults: (call) => this.#fault(call) });
  }

  get fetch(): FetchLike {
    const inner = this.stub.fetch;
    return async (url, init) => {
      const response = await inner(url, init);
      const key = new Headers(init.headers).get("x-idempotency-key");
      const model = key === null ? undefined : this.#modelOfKey.get(key);
      if (model === undefined || response.status !== 200) return response;
      const bytes = await response.arrayBuffer();
      const { request_id: id } = JSON.parse(new TextDecoder().decode(bytes)) as { request_id?: string };
      if (id !== undefined) this.#modelOfRequest.set(id, model);
      return new Response(bytes, { status: response.status, headers: response.headers });
    };
  }

  /** The client says that it has replaced its lost model. */
  replaced(): void {
    for (const model of this.#lost.keys()) if (model !== this.#current) this.#replaced.add(model);
  }

  #fault({ operation, body, headers, path }: StubCall): Fault | undefined {
    if (operation === "sessionHeartbeat" && this.#endedSessions.has((body as Fields).sessionId ?? ""))
      return { kind: "status", status: 410, body: { detail: "The session was finished by its client." } };
    if (background.includes(operation)) return undefined;
    const fields = (body ?? {}) as Fields;
    if (operation === "getTrainingRun") return this.#recordOf(path);
    this.requests++;
    const due = this.#plan[0];
    if (due !== undefined && this.requests >= due.at && this.#current !== undefined && !this.#lost.has(this.#current)) {
      this.#plan.shift();
      this.#lose(this.#current, due);
    }
    const { modelId, sessionId } = fields;
    const from = fields.path ?? fields.tinkerPath;
    if ((operation === "loadWeights" || operation === "weightsInfo") && from !== undefined) {
      if (this.#goneCheckpoints.has(from)) return missing("checkpoint", from);
    }
    if (sessionId !== undefined && this.#endedSessions.has(sessionId)) return ended(sessionId);
    const isCreation = operation === "createModel" || (operation === "loadWeights" && modelId === undefined);
    if (isCreation) {
      this.#current = `${sessionId}:train:${fields.modelSeqId}`;
      if (fields.path !== undefined) this.#madeFrom.set(this.#current, fields.path);
      return undefined;
    }
    if (operation === "retrieveFuture") return this.#lostFuture(this.#modelOfRequest.get(fields.requestId ?? ""));
    if (modelId === undefined) return undefined;
    const lost = this.#lost.get(modelId);
    if (this.#replaced.has(modelId) && operation !== "unloadModel") this.stale.push(`${operation} ${modelId}`);
    if (lost === undefined || lost === "corrupted") {
      const key = headers["x-idempotency-key"];
      if (key !== undefined) this.#modelOfKey.set(key, modelId);
      return undefined;
    }
    return lost === "session_ended" ? ended(modelId.split(":")[0] as string) : missing("model", modelId);
  }

  #lose(model: string, due: PlannedLoss): void {
    this.done.push(due);
    this.#lost.set(model, due.kind);
    this.#soundUntil.set(model, this.stub.applied(model).length);
    if (due.kind === "session_ended") this.#endedSessions.add(model.split(":")[0] as string);
    if (due.kind !== "evicted_with_checkpoint") return;
    const last = this.stub.applied(model).findLast(({ kind }) => kind === "SaveWeights");
    if (last !== undefined) this.#goneCheckpoints.add(`tinker://${model}/weights/${(last.body as Fields).path}`);
  }

  /** The server's record of a model; the stub's own answer where there is nothing to say. */
  #recordOf(path: string): Fault | undefined {
    const model = decodeURIComponent(new URL(path, "http://stub").pathname.split("/").at(-1) as string);
    const lost = this.#lost.get(model);
    if (lost === undefined) return undefined;
    if (lost !== "corrupted") return missing("training run", model);
    const run = { training_run_id: model, base_model: "stub/model", model_owner: "owner", is_lora: true };
    return {
      kind: "status",
      status: 200,
      body: { ...run, last_request_time: "2026-07-01T12:00:00Z", corrupted: true },
    };
  }

  /** What an evicted model had not finished fails; half of it in the server's words, half by a status. */
  #lostFuture(model: string | undefined): Fault | undefined {
    const lost = model === undefined ? undefined : this.#lost.get(model);
    if (model === undefined || lost === undefined || lost === "corrupted") return undefined;
    if (this.requests % 2 === 0) return { kind: "status", status: 410, body: { detail: "The result has expired." } };
    const error = `The model ${model} was evicted.`;
    return { kind: "status", status: 200, body: { error, category: "server" }, headers: {} };
  }

  /** What was done to the weights of a checkpoint, from the initial weights on; `garbage` for what a corrupted model did. */
  weights(path: string): string[] {
    const [, model, name] = /^tinker:\/\/(.+)\/weights\/([^/]+)$/.exec(path) ?? [];
    if (model === undefined) throw new Error(`not a training checkpoint: ${path}`);
    const applied = this.stub.applied(model);
    const end = applied.findIndex(({ kind, body }) => kind === "SaveWeights" && (body as Fields).path === name);
    if (end === -1) throw new Error(`never saved: ${path}`);
    const made = this.#madeFrom.get(model);
    const sound = this.#soundUntil.get(model) ?? Number.POSITIVE_INFINITY;
    const done = made === undefined ? [] : this.weights(made);
    for (const [at, { kind, forwardOnly, body }] of applied.slice(0, end).entries()) {
      if (kind === "LoadWeights") {
        const { path: from, optimizer } = body as Fields;
        done.splice(0, done.length, ...this.weights(from as string), ...(optimizer === true ? [] : ["new optimizer"]));
      } else if ((kind === "ForwardBackward" && !forwardOnly) || kind === "OptimStep") {
        done.push(at >= sound ? "garbage" : `${kind} ${described(body)}`);
      }
    }
    return done;
  }
}

const ended = (session: string): Fault => ({
  kind: "status",
  status: 410,
  body: { detail: `The session ${session} was finished by its client.` },
});

function described(body: unknown): string {
  const { adamParams, forwardBackwardInput } = body as {
    readonly adamParams?: { readonly learningRate: number };
    readonly forwardBackwardInput?: { readonly data: readonly Datum[]; readonly lossFn: string };
  };
  if (adamParams !== undefined) return String(adamParams.learningRate);
  const data = forwardBackwardInput?.data.map(({ modelInput, lossFnInputs }) => {
    const inputs = Object.entries(lossFnInputs).map(
      ([key, { values }]) => `${key}=${Array.from(values as ArrayLike<number | bigint>, String).join(",")}`,
    );
    return `${modelInput.toInts().join(",")} ${inputs.sort().join(" ")}`;
  });
  return `${forwardBackwardInput?.lossFn} ${data?.join(" | ")}`;
}
