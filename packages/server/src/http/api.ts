/** What handlers work with, and their types: one for every route of the contract, or this does not compile. */
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

/** A base model that is served. */
export interface ServedModel {
  /** Its name in the API. */
  readonly name: string;
  readonly info: ModelInfo;
  /** A folder that the Python client can load a tokenizer from without a network. */
  readonly tokenizerId: string | undefined;
  /** The contents of its tokenizer's files, for clients that have no access to that folder. */
  readonly tokenizerFiles: (() => Promise<TokenizerFiles>) | undefined;
}

/** When each session was last heard of. */
export interface SessionActivity {
  seen(sessionId: string): void;
  /** By this process; one that it has not heard of counts as seen when it started. */
  lastSeen(sessionId: string): number;
  /** By this process, if it has. */
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
  /** Where prompts of chats are made. */
  readonly promptThreads: PromptThreads;
  /** Flags that `client/config` answers. */
  readonly clientConfig: { readonly createModelViaLoadWeights: boolean; readonly protoCompressFwdbwd: boolean };
}

/** The request that a handler answers. */
export interface Call {
  readonly caller: Caller;
  readonly request: Request;
  readonly url: URL;
  /** The body as JSON, as it came. */
  readonly wire: unknown;
  /** The body's bytes, unpacked. */
  readonly bytes: Uint8Array;
  /** Calls `run` once, when the answer is sent or the connection is closed; at once, where the request came from within the process. */
  readonly onSent: (run: () => void) => void;
}

/** `undefined` answers an empty object; a `Response` goes out as it is. */
type Answer<K extends Operation> = ResponseOf<K> | Response | undefined;
type Handler<K extends Operation> = (received: ReceivedOf<K>, call: Call) => Promise<Answer<K>> | Answer<K>;

/** Passes are decoded by their handler: what is wrong with their data is told through the future. */
export type PassHandler = (call: Call, form: "proto" | "json" | "forward-json") => Promise<Answer<"forwardBackward">>;
export type PassOperation = "forward" | "forwardBackward";

export type Handlers = { readonly [K in Exclude<Operation, PassOperation>]: Handler<K> } & {
  readonly [K in PassOperation]: PassHandler;
};
