/** Runs one chat: takes its slot, aborts it when the client leaves, and answers with a complete response or a stream. */
import { Refusal } from "../../queue/refusal.ts";
import { describeError, type Problem } from "../answers.ts";
import type { Api, Call } from "../api.ts";
import { createEventStream } from "../event-stream.ts";
import type { FindChatModel } from "./chat-models.ts";
import type { ChatSlots } from "./slots.ts";

const clientGone = (): Refusal => new Refusal(503, "client_gone", "The client has disconnected.");

/** Dependencies of the chat handlers. */
export interface ChatContext {
  readonly api: Api;
  readonly slots: ChatSlots;
  readonly modelOf: FindChatModel;
}

/** The slot that one chat holds. */
export interface ChatSlot {
  /** Prevents the release after the response's head; the returned function releases the slot. */
  keep(): () => void;
}

/** Answers with a slot, which is released when the response is sent. @throws Refusal 429 when no slot is free */
export async function withSlot(
  { slots }: ChatContext,
  call: Call,
  answer: (slot: ChatSlot) => Promise<Response>,
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

/** Runs a chat whose response is sent when it is complete. */
export async function answerWhole<T>(call: Call, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { signal, stopWatching } = watchClient(call);
  try {
    return await run(signal);
  } finally {
    stopWatching();
  }
}

export interface StreamedChat {
  readonly slot: ChatSlot;
  /** Sends the events. An error before the first event becomes the response's status. */
  readonly run: (send: (text: string) => void, signal: AbortSignal) => Promise<void>;
  readonly heartbeat: () => string;
  /** The event for an error after the first event. */
  readonly failure: (problem: Problem) => string;
}

/** Runs a chat whose response is streamed. The head is sent with the first event or heartbeat. */
export async function answerStreamed(
  { api }: ChatContext,
  call: Call,
  { run, heartbeat, failure, slot }: StreamedChat,
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
  release = slot.keep();
  done.catch(() => {}); // from here on failures are sent as events
  return stream.response();
}

export const unexpected: Problem = {
  status: 500,
  code: "internal",
  detail: "The server failed to answer this request; its log has the error.",
};

/** A signal that is aborted when the client disconnects. */
function watchClient(call: Call): { signal: AbortSignal; leave: () => void; stopWatching: () => void } {
  const gone = new AbortController();
  const leave = () => gone.abort(clientGone());
  const { signal } = call.request;
  signal.addEventListener("abort", leave, { once: true });
  if (signal.aborted) leave();
  return { signal: gone.signal, leave, stopWatching: () => signal.removeEventListener("abort", leave) };
}
