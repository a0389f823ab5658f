/** The life of one chat: its place among all of them, its end when the client leaves, and its answer, whole or streamed. */
import { Refusal } from "../../queue/refusal.ts";
import { describeError, type Problem } from "../answers.ts";
import type { Api, Call } from "../api.ts";
import { createEventStream } from "../event-stream.ts";
import type { FindChatModel } from "./chat-models.ts";
import type { ChatSlots } from "./slots.ts";

const clientGone = (): Refusal => new Refusal(503, "client_gone", "The client has left.");

/** What the parts of a chat's handler share. */
export interface ChatContext {
  readonly api: Api;
  readonly slots: ChatSlots;
  readonly modelOf: FindChatModel;
}

/** A chat's place among all of them. */
export interface Place {
  /** Keeps it beyond the answer's head; the function gives it back. */
  keep(): () => void;
}

/** Answers within a place, which is held until the answer is sent. @throws Refusal 429 when there is none */
export async function withPlace(
  { slots }: ChatContext,
  call: Call,
  answer: (place: Place) => Promise<Response>,
): Promise<Response> {
  const release = slots.take(call.caller.tenant);
  let isKept = false;
  const keep = () => {
    isKept = true;
    return release;
  };
  try {
    return await answer({ keep });
  } finally {
    if (!isKept) call.onSent(release);
  }
}

/** Runs a chat that is answered when it is complete. */
export async function answerWhole<T>(call: Call, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, stopWatching } = watchClient(call);
  try {
    return await run(signal);
  } finally {
    stopWatching();
  }
}

export interface StreamedChat {
  readonly place: Place;
  /** Writes the events; what it throws before the first one is the answer's status. */
  readonly run: (send: (text: string) => void, signal: AbortSignal) => Promise<void>;
  readonly heartbeat: () => string;
  /** An error behind the first event. */
  readonly failure: (problem: Problem) => string;
}

/** Runs a chat that is answered while it is drawn. The head goes out with the first event, or the first sign of life. */
export async function answerStreamed(
  { api }: ChatContext,
  call: Call,
  { run, heartbeat, failure, place }: StreamedChat,
): Promise<Response> {
  let release = () => {};
  const { signal, leave, stopWatching } = watchClient(call);
  const stream = createEventStream({
    clock: api.clock,
    heartbeatMs: api.limits.chatHeartbeatMs,
    heartbeat,
    onGone: leave,
    onOver: () => {
      stopWatching();
      release();
    },
  });
  const done = run(stream.send, signal).then(stream.end, (error: unknown) => {
    if (!stream.hasBegun) throw error;
    const problem = describeError(error);
    if (problem === undefined) api.log.error("chat.failed", { error: (error as Error)?.stack ?? String(error) });
    stream.send(failure(problem ?? unexpected));
    stream.end();
  });
  try {
    await Promise.race([stream.first, done]);
  } catch (error) {
    stopWatching();
    throw error;
  }
  release = place.keep();
  done.catch(() => {}); // it has begun: failures are events
  return stream.response();
}

export const unexpected: Problem = {
  status: 500,
  code: "internal",
  detail: "The server failed at this request; its log says why.",
};

/** A signal that ends with the client. */
function watchClient(call: Call): { signal: AbortSignal; leave: () => void; stopWatching: () => void } {
  const gone = new AbortController();
  const leave = () => gone.abort(clientGone());
  const { signal } = call.request;
  signal.addEventListener("abort", leave, { once: true });
  if (signal.aborted) leave();
  return { signal: gone.signal, leave, stopWatching: () => signal.removeEventListener("abort", leave) };
}
