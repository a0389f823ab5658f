/** Futures: results are waited for without spinning, can be read again, and failures say whose fault they are. */
import { decodeForwardBackwardOutput } from "@tinklet/wire";
import { group } from "../case.ts";
import { equal, fail, holds, text } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, passBytes } from "../data.ts";
import { described } from "../http.ts";

/** A request that cannot run yet, because the one before it is missing. */
async function pending(
  context: Context,
): Promise<{ modelId: string; requestId: string; release: () => Promise<void> }> {
  const modelId = await context.rawModel();
  const requestId = await context.http.submit("forward_backward", passBytes(modelId, 2));
  const release = async () => void (await context.http.submit("forward_backward", passBytes(modelId, 1)));
  return { modelId, requestId, release };
}

/** A request that is accepted and fails by the user's fault. */
async function failing(context: Context, modelId?: string): Promise<string> {
  const bytes = passBytes(modelId ?? (await context.rawModel()), 1, [datumOf(lesson)], { lossFn: "no_such_loss" });
  return context.http.submit("forward_backward", bytes);
}

const queueStates = ["active", "paused_capacity", "paused_rate_limit", "unknown"];

export const futures = group("futures", "results can be waited for, read again, and tell whose fault a failure is", [
  [
    "read-twice",
    "an answer lost on the way is asked for again",
    "a result can be retrieved any number of times",
    async (context) => {
      const requestId = await context.http.submit("forward_backward", passBytes(await context.rawModel(), 1));
      const first = await context.http.result(requestId, "ForwardBackward");
      const second = await context.http.result(requestId, "ForwardBackward");
      equal(Buffer.compare(first.bytes, second.bytes), 0, "difference between two readings");
    },
  ],
  [
    "read-late",
    "programs collect results after they have submitted much more",
    "a result is kept while later requests run",
    async (context) => {
      const modelId = await context.rawModel();
      const early = await context.http.submit("forward_backward", passBytes(modelId, 1));
      for (let seqId = 2; seqId < 8; seqId++) await context.http.call("forward_backward", passBytes(modelId, seqId));
      await context.http.result(early, "ForwardBackward");
    },
  ],
  [
    "long-poll",
    "clients poll again at once: a server that answers pending at once is flooded",
    "a poll is held open, for tens of seconds, before it says try_again",
    async (context) => {
      const { requestId, release } = await pending(context);
      const started = performance.now();
      const answer = await context.http.poll(requestId);
      const heldMs = Math.round(performance.now() - started);
      await release();
      const isPending = answer.status === 408 || answer.json?.type === "try_again";
      holds(isPending, "the poll of a request that cannot run yet", "try_again or 408", described(answer));
      holds(heldMs >= 500, "time for which the poll was held", "at least 500 ms", `${heldMs} ms`);
      holds(heldMs < 45_000, "time for which the poll was held", "less than the client's 45 s", `${heldMs} ms`);
    },
  ],
  [
    "pending-form",
    "clients tell a waiting user what they wait for",
    "pending is {type:try_again, request_id, queue_state}, or a 408 with JSON",
    async (context) => {
      const { requestId, release } = await pending(context);
      const answer = await context.http.poll(requestId);
      await release();
      holds(answer.json !== undefined, "the body of a pending answer", "JSON", described(answer));
      const state = answer.json.queue_state;
      if (answer.status === 408 && state === undefined) return;
      holds(queueStates.includes(state), "queue_state", `one of ${queueStates.join(", ")}`, state);
      if (answer.status === 200) equal(answer.json.request_id, requestId, "request_id");
    },
  ],
  [
    "poll-wakes",
    "waiting must end when the work does, not when the poll runs out",
    "an open poll is answered as soon as the result is there",
    async (context) => {
      const { requestId, release } = await pending(context);
      const waiting = context.http.outcome(requestId, { requestType: "ForwardBackward" });
      await release();
      const outcome = await waiting;
      equal(outcome.kind, "done", "the end of an open poll");
    },
  ],
  [
    "several-readers",
    "two processes may wait for one result",
    "all of them get it",
    async (context) => {
      const { requestId, release } = await pending(context);
      const readers = [0, 1, 2].map(() => context.http.result(requestId, "ForwardBackward"));
      await release();
      const results = await Promise.all(readers);
      for (const { bytes } of results) equal(decodeForwardBackwardOutput(bytes).lossFnOutputs.length, 1, "outputs");
    },
  ],
  [
    "abandoned-poll",
    "a connection that breaks during a poll must not take the result with it",
    "the next poll finds the result",
    async (context) => {
      const { requestId, release } = await pending(context);
      const impatient = new AbortController();
      const lost = context.http.poll(requestId, { signal: impatient.signal }).catch(() => undefined);
      await release();
      impatient.abort();
      await lost;
      await context.http.result(requestId, "ForwardBackward");
    },
  ],
  [
    "unknown-id",
    "a client that waits for what does not exist waits for ever",
    "an unknown request id is a 4xx at once",
    async ({ http }) => {
      for (const id of ["0", "no-such-request", "99999999"]) {
        const answer = await http.poll(id);
        const refused = answer.status >= 400 && answer.status < 500 && answer.status !== 408;
        holds(refused, `the poll of an unknown request ${id}`, "a 4xx", described(answer));
      }
    },
  ],
  [
    "failure-form",
    "a 4xx on the poll is retried or fatal; only the failure's own form tells the user what was wrong",
    'a failed request answers 200 with {"error", "category"}',
    async (context) => {
      const outcome = await context.http.outcome(await failing(context));
      if (outcome.kind !== "failed") fail("a failed request", "200 with an error", described(outcome.answer));
      text(outcome.error, "error");
    },
  ],
  [
    "failure-category",
    "only a user's fault is not worth trying again",
    'a mistake in the request has category "user"',
    async (context) => {
      const outcome = await context.http.outcome(await failing(context));
      if (outcome.kind !== "failed") fail("a failed request", "200 with an error", described(outcome.answer));
      equal(outcome.category, "user", "category of an unknown loss");
    },
  ],
  [
    "failure-is-kept",
    "a failure whose answer was lost is asked for again",
    "a failure can be retrieved any number of times",
    async (context) => {
      const requestId = await failing(context);
      const [a, b] = [await context.http.outcome(requestId), await context.http.outcome(requestId)];
      equal([a.kind, b.kind].includes("done"), false, "a failed request that later succeeds");
      equal(described(b.answer), described(a.answer), "the failure, read again");
    },
  ],
  [
    "failure-ends-there",
    "one bad batch must not cost the run",
    "after a failed request the model takes the next one",
    async (context) => {
      const modelId = await context.rawModel();
      await context.http.outcome(await failing(context, modelId));
      await context.http.call("forward_backward", passBytes(modelId, 2));
    },
  ],
  [
    "no-error-key",
    "clients take any object with an error key for a failure, even when it is null",
    "successful JSON results have no error key and are not of type try_again",
    async (context) => {
      const modelId = await context.rawModel();
      const step = { model_id: modelId, seq_id: 1, adam_params: {}, type: "optim_step" };
      const save = { model_id: modelId, seq_id: 2, path: context.uniqueName("keys"), type: "save_weights" };
      for (const [path, body] of [
        ["optim_step", step],
        ["save_weights", save],
      ] as const) {
        const { json } = await context.http.call(path, body);
        holds(!("error" in json) && json.type !== "try_again", `the result of ${path}`, "no error key", json);
      }
    },
  ],
  [
    "payload-when-asked",
    "large results are announced first; then the payload must come",
    "with allow_metadata_only false the result itself is answered",
    async (context) => {
      const requestId = await context.http.submit("forward_backward", passBytes(await context.rawModel(), 1));
      await context.http.result(requestId, "ForwardBackward");
      const answer = await context.http.poll(requestId, { metadataOnly: false });
      equal(decodeForwardBackwardOutput(answer.bytes).lossFnOutputs.length, 1, "outputs");
    },
  ],
]);
