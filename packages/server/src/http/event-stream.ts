/**
 * Server-sent events whose writer never waits: unread events are buffered, and the writer bounds their number. In pauses a heartbeat is
 * sent, but only if no event is unread, so that a reader that does not read costs no further memory. Reports when the reader has left.
 */
import { stringifyJson } from "@tinklet/wire";
import type { Clock } from "@tinklet/wire/clock";

export interface EventStreamOptions {
  readonly clock: Clock;
  /** Time without an event before a heartbeat. */
  readonly heartbeatMs: number;
  /** The text of a heartbeat. */
  readonly heartbeat: () => string;
  /** Called once when the reader leaves before the end. */
  readonly onGone: () => void;
  /** Called once when the reader has read the last byte, or has left. */
  readonly onOver: () => void;
}

export interface EventStream {
  readonly send: (text: string) => void;
  readonly end: () => void;
  /** Resolves when the first event is sent, or the stream ends. */
  readonly first: Promise<void>;
  /** Whether anything was sent. */
  readonly hasBegun: boolean;
  /** Number of buffered events that the reader has not read. */
  readonly untaken: number;
  readonly response: () => Response;
}

const encoder = new TextEncoder();

/** Characters of one chunk, unless a single event is longer. */
const chunkLength = 16_384;

export function createEventStream(options: EventStreamOptions): EventStream {
  const { clock, heartbeatMs, heartbeat, onGone, onOver } = options;
  let pending: string[] = [];
  let next = 0; // index of the first unread event in `pending`
  let ended = false;
  let over = false;
  let hasBegun = false;
  let wake = () => {};
  let begin = () => {};
  const first = new Promise<void>((resolve) => {
    begin = resolve;
  });
  let stopBeat = () => {};
  const beat = () => {
    stopBeat();
    stopBeat = clock.timer(heartbeatMs, () => {
      if (ended || over) return;
      if (pending.length === 0) send(heartbeat());
      else beat();
    });
  };
  const send = (text: string): void => {
    if (ended || over || text === "") return;
    pending.push(text);
    hasBegun = true;
    begin();
    wake();
    beat();
  };
  const finish = (): void => {
    if (over) return;
    over = true;
    stopBeat();
    onOver();
  };
  /** Events for one chunk. Chunks are small, so that unread events stay in `pending`, where they are counted. */
  const takeSome = (): string => {
    let some = "";
    while (next < pending.length && some.length < chunkLength) {
      some += pending[next]!;
      pending[next++] = "";
    }
    if (next === pending.length) {
      pending = [];
      next = 0;
    }
    return some;
  };
  beat();
  return {
    send,
    first,
    end: () => {
      ended = true;
      stopBeat();
      begin();
      wake();
    },
    get hasBegun() {
      return hasBegun;
    },
    get untaken() {
      return pending.length - next;
    },
    response: () => {
      const body = new ReadableStream<Uint8Array>(
        {
          pull: async (controller) => {
            while (pending.length === 0 && !ended && !over) {
              await new Promise<void>((resolve) => {
                wake = resolve;
              });
            }
            if (over) return;
            if (pending.length > 0) controller.enqueue(encoder.encode(takeSome()));
            if (!ended || pending.length > 0) return;
            controller.close();
            finish();
          },
          cancel: () => {
            if (over) return;
            finish();
            wake();
            onGone();
          },
        },
        { highWaterMark: 0 },
      );
      return new Response(body, {
        headers: {
          "content-type": "text/event-stream; charset=utf-8",
          "cache-control": "no-cache",
          // nginx buffers responses without this header
          "x-accel-buffering": "no",
        },
      });
    },
  };
}

/** One event whose name is its type. */
export const namedEvent = (body: { readonly type: string; readonly [key: string]: unknown }): string =>
  `event: ${body.type}\ndata: ${stringifyJson(body)}\n\n`;
