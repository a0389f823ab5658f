/** A server for tests: in memory by default, with a fake clock and the fake engine, and methods for common requests. */

import {
  Datum,
  decodeForwardBackwardOutput,
  decodeSampleResponse,
  encodeForwardBackwardRequest,
  ModelInput,
  parseJson,
  protobufContentType,
} from "@tinklet/wire";
import { FakeClock } from "@tinklet/wire/testing";
import { tinyTokenizer } from "../../../models/src/testing/tiny-tokenizer.ts";
import { createServer, type ServerOptions, type TinkletServer } from "../server.ts";
import { type FakeEngineOptions, fakeEngine } from "./fake-engine.ts";

export interface TestServerOptions extends Partial<Omit<ServerOptions, "clock">> {
  readonly engine?: FakeEngineOptions;
  readonly clock?: FakeClock;
}

/** A complete response. */
export interface TestAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of every shape
  readonly json: any;
  readonly bytes: Uint8Array;
  readonly headers: Headers;
}

export const baseModel = "test/model";

/** A promise and its resolve function. */
export const gateway = (): { promise: Promise<void>; resolve: () => void } => {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
};

/** Number of event loop turns during `work`: few, if `work` runs on this thread. */
export async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isDone = false;
  const watch = () => {
    turns++;
    if (!isDone) setImmediate(watch);
  };
  setImmediate(watch);
  await work();
  isDone = true;
  return turns;
}

export class TestServer {
  readonly clock: FakeClock;
  readonly server: TinkletServer;
  readonly logged: { level: string; event: string; [key: string]: unknown }[];
  key = "tml-test";

  private constructor(server: TinkletServer, clock: FakeClock, logged: TestServer["logged"]) {
    this.server = server;
    this.clock = clock;
    this.logged = logged;
  }

  static async open(options: TestServerOptions = {}): Promise<TestServer> {
    const clock = options.clock ?? new FakeClock();
    const logged: TestServer["logged"] = [];
    const at = (level: string) => (event: string, fields?: object) => void logged.push({ level, event, ...fields });
    const server = await createServer({
      models: [
        { name: baseModel, open: async () => fakeEngine(options.engine), tokenizerFiles: async () => tinyTokenizer },
      ],
      log: { info: at("info"), warn: at("warn"), error: at("error") },
      ...options,
      clock,
    });
    return new TestServer(server, clock, logged);
  }

  async send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<TestAnswer> {
    const isBytes = body instanceof Uint8Array;
    const response = await this.server.fetch(
      new Request(`http://localhost${path.startsWith("/") ? path : `/api/v1/${path}`}`, {
        method,
        headers: {
          "x-api-key": this.key,
          ...(method === "GET" ? {} : { "content-type": isBytes ? protobufContentType : "application/json" }),
          ...headers,
        },
        ...(body === undefined
          ? {}
          : {
              body: isBytes
                ? (body as Uint8Array<ArrayBuffer>)
                : typeof body === "string"
                  ? body
                  : JSON.stringify(body),
            }),
      }),
    );
    const bytes = new Uint8Array(await response.arrayBuffer());
    const isJson = (response.headers.get("content-type") ?? "").includes("json");
    const json = isJson && bytes.length > 0 ? parseJson(new TextDecoder().decode(bytes)) : undefined;
    return { status: response.status, json, bytes, headers: response.headers };
  }

  post(path: string, body: unknown = {}, headers?: Record<string, string>): Promise<TestAnswer> {
    return this.send("POST", path, body, headers);
  }

  get(path: string): Promise<TestAnswer> {
    return this.send("GET", path);
  }

  /** The response of one poll. */
  retrieve(requestId: string): Promise<TestAnswer> {
    return this.post(
      "retrieve_future",
      { request_id: requestId, allow_metadata_only: true },
      { accept: protobufContentType },
    );
  }

  /** The JSON result of an accepted request. */
  async result(answer: TestAnswer | Promise<TestAnswer>): Promise<TestAnswer["json"]> {
    const accepted = await answer;
    if (accepted.status !== 200) throw new Error(`not accepted: ${accepted.status} ${JSON.stringify(accepted.json)}`);
    return (await this.retrieve(accepted.json.request_id)).json;
  }

  async session(): Promise<string> {
    const answer = await this.post("create_session", { tags: [], user_metadata: {}, sdk_version: "test" });
    return answer.json.session_id as string;
  }

  /** Creates a model and waits for it; returns its id. */
  async model(sessionId?: string, options: { seq?: number; rank?: number; seed?: number } = {}): Promise<string> {
    const result = await this.result(
      this.post("create_model", {
        session_id: sessionId ?? (await this.session()),
        model_seq_id: options.seq ?? 0,
        base_model: baseModel,
        lora_config: { rank: options.rank ?? 4, seed: options.seed ?? 7 },
      }),
    );
    return result.model_id as string;
  }

  pass(
    modelId: string,
    seqId: number,
    options: { tokens?: number[]; forwardOnly?: boolean; lossFn?: string } = {},
  ): Promise<TestAnswer> {
    return this.post("forward_backward", passBytes(modelId, seqId, options));
  }

  optim(modelId: string, seqId: number, learningRate = 0.01): Promise<TestAnswer> {
    return this.post("optim_step", { model_id: modelId, seq_id: seqId, adam_params: { learning_rate: learningRate } });
  }

  async passResult(answer: TestAnswer | Promise<TestAnswer>) {
    return decodeForwardBackwardOutput((await this.retrieve((await answer).json.request_id)).bytes);
  }

  async sampleResult(answer: TestAnswer | Promise<TestAnswer>) {
    return decodeSampleResponse((await this.retrieve((await answer).json.request_id)).bytes);
  }

  close(): Promise<void> {
    return this.server.close();
  }
}

export function passBytes(
  modelId: string,
  seqId: number,
  options: { tokens?: number[]; forwardOnly?: boolean; lossFn?: string } = {},
): Uint8Array {
  const tokens = options.tokens ?? [1, 2, 3, 4];
  return encodeForwardBackwardRequest({
    modelId,
    seqId,
    forwardOnly: options.forwardOnly ?? false,
    forwardBackwardInput: {
      lossFn: options.lossFn ?? "cross_entropy",
      data: [
        new Datum({
          modelInput: ModelInput.fromInts(tokens),
          lossFnInputs: { target_tokens: tokens.map((token) => token + 1), weights: tokens.map(() => 1) },
        }),
      ],
    },
  });
}
