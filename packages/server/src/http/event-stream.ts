/**
 * Server-sent events whose writer never waits: what is not taken yet is kept, bounded by what the writer writes at most. Signs of life
 * come in the pauses, one at a time, so that a reader who takes nothing costs nothing more. Knows when its reader is gone.
 */
import type { Clock } from "@tinklet/wire/clock";

export interface EventStreamOptions {
  readonly clock: Clock;
  /** Silence before a sign of life. */
  readonly heartbeatMs: number;
  /** A sign of life, as it is written. */
  readonly heartbeat: () => string;
  /** Called once: the reader has left before the end. */
  readonly onGone: () => void;
  /** Called once: the last byte is taken, or the reader has left. */
  readonly onOver: () => void;
}

export interface EventStream {
  readonly send: (text: string) => void;
  readonly end: () => void;
  /** Resolves when the first event is there. */
  readonly first: Promise<void>;
  /** Whether anything was sent. */
  readonly hasBegun: boolean;
  /** Events that the reader has not taken. */
  readonly untaken: number;
  readonly response: () => Response;
}

const encoder = new TextEncoder();

/** Characters of one chunk, unless a single event is longer. */
const chunkLength = 16_384;

export function createEventStream(options: EventStreamOptions): EventStream {
  const { clock, heartbeatMs, heartbeat, onGone, onOver } = options;
  let pending: string[] = [];
  let next = 0; // the first of them that was not taken
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
  /** Events for one chunk: a few, so that a reader who takes none holds up the rest here, where it counts. */
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
          // proxies that gather answers would undo the stream
          "x-accel-buffering": "no",
        },
      });
    },
  };
}
