/** Handlers of configuration, sessions, capabilities and tokenizers. */
import { officialClientConfig, officialDynamicConfig } from "@tinklet/server/portable";
import { randomHex } from "@tinklet/wire/entropy";
import { UserMessage } from "../failures.ts";
import { hostOf, openSession, type PageState } from "../page.ts";
import type { HandlersOf } from "./handler.ts";

type ServiceOperation =
  | "clientConfig"
  | "clientDynamicConfig"
  | "createSession"
  | "sessionHeartbeat"
  | "finishSession"
  | "getServerCapabilities"
  | "getTokenizerFiles"
  | "healthz"
  | "telemetry";

export const serviceHandlers = (page: PageState): HandlersOf<ServiceOperation> => ({
  clientConfig: () => ({
    ...officialClientConfig,
    tinkletExtensions: ["tokenizer", "sample_tokens", "constraint"],
  }),
  clientDynamicConfig: () => officialDynamicConfig,
  createSession: () => {
    const id = `s-${randomHex(10)}`;
    page.sessions.set(id, { id, finished: false });
    return { sessionId: id, type: "create_session" };
  },
  sessionHeartbeat: ({ body }) => {
    openSession(page, body.sessionId);
    return { type: "session_heartbeat" };
  },
  finishSession: async ({ params }) => {
    const session = openSession(page, params.sessionId);
    session.finished = true;
    page.requests.cancelOf(session.id, new UserMessage("The session was finished by its client."));
    for (const model of page.models.values()) if (model.sessionId === session.id) await model.unload();
    for (const sampler of [...page.samplers.values()]) {
      if (sampler.sessionId !== session.id) continue;
      page.samplers.delete(sampler.id);
      if (!sampler.isTransient || sampler.stateKey === undefined) continue;
      await page.snapshots.forget(sampler.stateKey);
      await page.storage.commit({ deletedStates: [sampler.stateKey] });
    }
    return undefined;
  },
  getServerCapabilities: async () => ({
    supportedModels: await Promise.all(
      [...page.hosts.values()].map(async (host) => {
        const { engine } = await host.opened();
        return {
          modelName: host.name,
          maxContextLength: engine.info.contextLength,
          trainable: true,
          sampleable: true,
        };
      }),
    ),
  }),
  getTokenizerFiles: async ({ query: { model } }) => {
    const { engine } = await hostOf(page, model).opened();
    const files = Object.entries(engine.tokenizerFiles).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string" && entry[1] !== "",
    );
    return { files: Object.fromEntries(files) };
  },
  healthz: () => ({ status: "ok" }),
  telemetry: () => ({ status: "accepted" }), // nothing leaves the page
});
