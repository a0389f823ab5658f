/** The dependencies of handlers, and their types. A route of the contract without a handler does not compile. */
import type { ModelInfo } from "@tinklet/engine";
import type { TokenizerFiles } from "@tinklet/models";
import type { Operation, ReceivedOf, ResponseOf } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";
import type { Limits } from "../limits.ts";
import type { Log } from "../log.ts";
import type { Queue } from "../queue/queue.ts";
import type { Store } from "../store/store.ts";
import type { Auth, Caller } from "./access/auth.ts";
import type { SignedLinks } from "./access/signed-links.ts";
import type { FindChatModel } from "./chat/chat-models.ts";
import type { PromptThreads } from "./chat/prompt-threads.ts";
import type { TraceThreads } from "./traces/trace-thread.ts";

/** A base model that is served. */
export interface ServedModel {
  /** Its name in the API. */
  readonly name: string;
  readonly info: ModelInfo;
  /** Folder or Hub id from which the Python client loads the tokenizer. */
  readonly tokenizerId: string | undefined;
  /** The contents of the tokenizer's files, for clients without access to that folder. */
  readonly tokenizerFiles: (() => Promise<TokenizerFiles>) | undefined;
}

/** The time of each session's last request. */
export interface SessionActivity {
  seen(sessionId: string): void;
  /** Time of the last request to this process; the start of the process if there was none. */
  lastSeen(sessionId: string): number;
  /** Time of the last request to this process; `undefined` if there was none. */
  heard(sessionId: string): number | undefined;
}

export interface Api {
  readonly store: Store;
  readonly queue: Queue;
  readonly clock: Clock;
  readonly log: Log;
  readonly limits: Limits;
  readonly auth: Auth;
  readonly links: SignedLinks;
  readonly sessionActivity: SessionActivity;
  readonly models: ReadonlyMap<string, ServedModel>;
  readonly chatModel: FindChatModel;
  /** Threads that read and search traces. */
  readonly traceThreads: TraceThreads;
  /** Threads that make the prompts of chats. */
  readonly promptThreads: PromptThreads;
  /** Flags in the response of `client/config`. */
  readonly clientConfig: { readonly createModelViaLoadWeights: boolean; readonly protoCompressFwdbwd: boolean };
}

/** The request that a handler answers. */
export interface Call {
  readonly caller: Caller;
  readonly request: Request;
  readonly url: URL;
  /** The parsed JSON of the body, before it is decoded. */
  readonly wire: unknown;
  /** The body's bytes, decompressed. */
  readonly bytes: Uint8Array;
  /** Calls `run` once: when the response is sent or the connection is closed; at once for a request of this process. */
  readonly onSent: (run: () => void) => void;
}

/** `undefined` is sent as an empty object; a `Response` is sent unchanged. */
type Answer<K extends Operation> = ResponseOf<K> | Response | undefined;
type Handler<K extends Operation> = (received: ReceivedOf<K>, call: Call) => Promise<Answer<K>> | Answer<K>;

/** Handlers of passes decode the body themselves, because errors in its data are reported through the future. */
export type PassHandler = (call: Call, form: "proto" | "json" | "forward-json") => Promise<Answer<"forwardBackward">>;
export type PassOperation = "forward" | "forwardBackward";

export type Handlers = { readonly [K in Exclude<Operation, PassOperation>]: Handler<K> } & {
  readonly [K in PassOperation]: PassHandler;
};
