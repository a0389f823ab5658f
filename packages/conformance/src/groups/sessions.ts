/** Sessions and heartbeats: requests and models belong to a session, and their checkpoints outlive it. */
import { SamplingClient } from "@tinklet/sdk";
import { group } from "../case.ts";
import { allClose, equal, holds } from "../checks.ts";
import { prompt } from "../context.ts";
import { datumOf, lesson, passBytes, score, tokensOf } from "../data.ts";
import { described } from "../http.ts";

const heartbeat = (sessionId: string) => ({ session_id: sessionId, type: "session_heartbeat" });

export const sessions = group("sessions", "requests belong to a session, which heartbeats keep alive", [
  [
    "heartbeat",
    "clients send a heartbeat every ten seconds; each must succeed",
    'answers {"type":"session_heartbeat"}',
    async (context) => {
      const { json } = await context.http.ok("POST", "session_heartbeat", heartbeat(await context.session()));
      holds([undefined, "session_heartbeat"].includes(json?.type), "type", "session_heartbeat or nothing", json);
    },
  ],
  [
    "unknown-heartbeat",
    "a client must receive an error if the server does not have its session",
    "an unknown session is a 4xx",
    async ({ http }) =>
      void (await http.refused("a heartbeat of an unknown session", "session_heartbeat", heartbeat("s-none"))),
  ],
  [
    "unknown-session-model",
    "a model without a session cannot be found later",
    "create_model with an unknown session is rejected",
    async ({ http, baseModel }) => {
      const body = {
        session_id: "s-none",
        model_seq_id: 0,
        base_model: baseModel,
        lora_config: { rank: 4 },
        type: "create_model",
      };
      await http.refused("create_model with an unknown session", "create_model", body);
    },
  ],
  [
    "unknown-session-sampler",
    "a sampler without a session cannot be found later",
    "create_sampling_session with an unknown session is rejected",
    async ({ http, baseModel }) => {
      const body = {
        session_id: "s-none",
        sampling_session_seq_id: 0,
        base_model: baseModel,
        type: "create_sampling_session",
      };
      await http.refused("a sampling session with an unknown session", "create_sampling_session", body);
    },
  ],
  [
    "no-heartbeat-yet",
    "clients send the first heartbeat ten seconds after creating the session",
    "requests are accepted before the first heartbeat",
    async (context) => {
      const modelId = await context.rawModel();
      await context.http.call("forward_backward", passBytes(modelId, 1));
    },
  ],
  [
    "several-beat",
    "a sampler in another process sends heartbeats for the same session",
    "several clients may send heartbeats concurrently",
    async (context) => {
      const sessionId = await context.session();
      await Promise.all([0, 1, 2, 3].map(() => context.http.ok("POST", "session_heartbeat", heartbeat(sessionId))));
    },
  ],
  [
    "distinct",
    "two programs must not share a session by accident",
    "each create_session creates a new session",
    async (context) => {
      const ids = await Promise.all([context.session(), context.session(), context.session()]);
      equal(new Set(ids).size, 3, "distinct session ids");
    },
  ],
  [
    "own-numbers",
    "model_seq_ids are scoped to a session",
    "model 0 of one session and model 0 of another are two models",
    async (context) => {
      const ids = [await context.rawModel(), await context.rawModel()];
      holds(ids[0] !== ids[1], "model ids of two sessions", "different ids", ids);
    },
  ],
  [
    "several-models",
    "a program may train several models concurrently",
    "one session may have several models",
    async (context) => {
      const sessionId = await context.session();
      const ids = [];
      for (const modelSeqId of [0, 1, 2]) ids.push(await context.rawModel({ sessionId, modelSeqId }));
      equal(new Set(ids).size, 3, "distinct model ids");
      for (const id of ids) await context.http.call("forward_backward", passBytes(id, 1));
    },
  ],
  [
    "shared-sampler",
    "worker processes use samplers by id",
    "another client with the same key may use a sampling session",
    async (context) => {
      const sampler = await context.baseSampler();
      const { baseUrl, apiKey, fetch } = context.target;
      const other = SamplingClient.fromHandle(await sampler.handle(), {
        baseUrl,
        apiKey,
        fetch,
        telemetry: false,
        logLevel: "off",
      });
      try {
        const { sequences } = await other.sample(prompt(tokensOf(1, 5)), { samplingParams: { maxTokens: 3 } });
        equal(sequences.length, 1, "number of sequences");
      } finally {
        await other.close();
      }
    },
  ],
  [
    "outlived",
    "checkpoints must remain after a program ends",
    "checkpoints outlive the client that created them",
    async (context) => {
      const learningRate = await context.measures.rate(context);
      const first = context.newService();
      const trainer = await context.trainer({}, first);
      await trainer.step([datumOf(lesson)], "cross_entropy", { learningRate });
      const expected = await score(trainer);
      const { path } = await trainer.saveState(context.uniqueName("outlived"));
      await first.close();
      const again = context.owned(await context.service.createTrainingClientFromState(path));
      const tolerance = await context.measures.tolerance(context);
      allClose(await score(again), expected, tolerance, "log-probs in another session");
    },
  ],
  [
    "unknown-session-info",
    "a mistyped id is a user error, not a server fault",
    "GET /sessions/{unknown} is a 4xx",
    async ({ http }) => {
      const answer = await http.get("sessions/s-none");
      holds(answer.status >= 400 && answer.status < 500, "an unknown session", "a 4xx", described(answer));
    },
  ],
]);
