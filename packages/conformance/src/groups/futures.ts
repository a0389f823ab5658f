/** Futures: results are long-polled, can be read repeatedly, and failures have a category. */
import { decodeForwardBackwardOutput } from "@tinklet/wire";
import { group } from "../case.ts";
import { equal, fail, holds, sameBytes, text } from "../checks.ts";
import type { Context } from "../context.ts";
import { datumOf, lesson, passBytes } from "../data.ts";
import { described } from "../http.ts";

/** A request that cannot run yet, because the preceding seq_id is missing. */
async function pending(
  context: Context,
): Promise<{ modelId: string; requestId: string; release: () => Promise<void> }> {
  const modelId = await context.rawModel();
  const requestId = await context.http.submit("forward_backward", passBytes(modelId, 2));
  const release = async () => void (await context.http.submit("forward_backward", passBytes(modelId, 1)));
  return { modelId, requestId, release };
}

/** A request that is accepted and then fails with a user error. */
async function failing(context: Context, modelId?: string): Promise<string> {
  const bytes = passBytes(modelId ?? (await context.rawModel()), 1, [datumOf(lesson)], { lossFn: "no_such_loss" });
  return context.http.submit("forward_backward", bytes);
}

const queueStates = ["active", "paused_capacity", "paused_rate_limit", "unknown"];

export const futures = group(
  "futures",
  "results can be long-polled and read repeatedly, and failures have a category",
  [
    [
      "read-twice",
      "a client reads a result again if the response was lost",
      "a result can be retrieved any number of times",
      async (context) => {
        const requestId = await context.http.submit("forward_backward", passBytes(await context.rawModel(), 1));
        const first = await context.http.result(requestId, "ForwardBackward");
        const second = await context.http.result(requestId, "ForwardBackward");
        equal(sameBytes(first.bytes, second.bytes), true, "two reads are equal");
      },
    ],
    [
      "read-late",
      "programs read results after they have submitted more requests",
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
      "clients poll again at once, so a server that answers pending at once receives too many requests",
      "a poll is held open for tens of seconds before it returns try_again",
      async (context) => {
        const { requestId, release } = await pending(context);
        const started = performance.now();
        const answer = await context.http.poll(requestId);
        const heldMs = Math.round(performance.now() - started);
        await release();
        const isPending = answer.status === 408 || answer.json?.type === "try_again";
        holds(isPending, "the poll of a pending request", "try_again or 408", described(answer));
        holds(heldMs >= 500, "time for which the poll was held", "at least 500 ms", `${heldMs} ms`);
        holds(heldMs < 45_000, "time for which the poll was held", "less than the client's 45 s", `${heldMs} ms`);
      },
    ],
    [
      "pending-form",
      "clients show to users why a request is waiting",
      "pending is {type:try_again, request_id, queue_state}, or a 408 with JSON",
      async (context) => {
        const { requestId, release } = await pending(context);
        const answer = await context.http.poll(requestId);
        await release();
        holds(answer.json !== undefined, "the body of a pending response", "JSON", described(answer));
        const state = answer.json.queue_state;
        if (answer.status === 408 && state === undefined) return;
        holds(queueStates.includes(state), "queue_state", `one of ${queueStates.join(", ")}`, state);
        if (answer.status === 200) equal(answer.json.request_id, requestId, "request_id");
      },
    ],
    [
      "poll-wakes",
      "a poll must return as soon as the work is finished, not at its time-out",
      "an open poll returns as soon as the result is available",
      async (context) => {
        const { requestId, release } = await pending(context);
        const waiting = context.http.outcome(requestId, { requestType: "ForwardBackward" });
        await release();
        const outcome = await waiting;
        equal(outcome.kind, "done", "the outcome of an open poll");
      },
    ],
    [
      "several-readers",
      "two processes may wait for one result",
      "every poll receives the result",
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
      "the result must not be lost if the connection breaks during a poll",
      "the next poll returns the result",
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
      "a client must not wait forever for a request that does not exist",
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
      "clients retry a 4xx of a poll or treat it as fatal; only a failure response carries the error message",
      'a failed request returns 200 with {"error", "category"}',
      async (context) => {
        const outcome = await context.http.outcome(await failing(context));
        if (outcome.kind !== "failed") fail("a failed request", "200 with an error", described(outcome.answer));
        text(outcome.error, "error");
      },
    ],
    [
      "failure-category",
      "clients do not retry user errors",
      'an error in the request has category "user"',
      async (context) => {
        const outcome = await context.http.outcome(await failing(context));
        if (outcome.kind !== "failed") fail("a failed request", "200 with an error", described(outcome.answer));
        equal(outcome.category, "user", "category of an unknown loss");
      },
    ],
    [
      "failure-is-kept",
      "a client reads a failure again if the response was lost",
      "a failure can be retrieved any number of times",
      async (context) => {
        const requestId = await failing(context);
        const [a, b] = [await context.http.outcome(requestId), await context.http.outcome(requestId)];
        equal([a.kind, b.kind].includes("done"), false, "a failed request succeeds on a later read");
        equal(described(b.answer), described(a.answer), "the second read of the failure");
      },
    ],
    [
      "failure-ends-there",
      "one bad batch must not end the run",
      "after a failed request the model accepts the next one",
      async (context) => {
        const modelId = await context.rawModel();
        await context.http.outcome(await failing(context, modelId));
        await context.http.call("forward_backward", passBytes(modelId, 2));
      },
    ],
    [
      "no-error-key",
      "clients treat any object with an error key as a failure, even if it is null",
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
      "large results are announced by metadata first; then the payload must follow",
      "with allow_metadata_only false the result itself is returned",
      async (context) => {
        const requestId = await context.http.submit("forward_backward", passBytes(await context.rawModel(), 1));
        await context.http.result(requestId, "ForwardBackward");
        const answer = await context.http.poll(requestId, { metadataOnly: false });
        equal(decodeForwardBackwardOutput(answer.bytes).lossFnOutputs.length, 1, "outputs");
      },
    ],
  ],
);
