/** Handlers of configuration, credentials, new sessions, capabilities, tokenizers and telemetry. */
import { ModelError, type TokenizerFiles } from "@tinklet/models";
import { randomHex } from "@tinklet/wire/entropy";
import { Refusal } from "../../queue/refusal.ts";
import { addSession } from "../../store/tables/sessions.ts";
import { openSession } from "../access/access.ts";
import type { Api, Handlers } from "../api.ts";
import { officialClientConfig, officialDynamicConfig } from "../client-config.ts";
import { checkMetadata, checkText } from "./fields.ts";

type ServiceOperation =
  | "clientConfig"
  | "clientDynamicConfig"
  | "authToken"
  | "createSession"
  | "sessionHeartbeat"
  | "getServerCapabilities"
  | "getTokenizerFiles"
  | "healthz"
  | "telemetry";

/**
 * @param extensions - names of features beyond the official API, for clients that can use them.
 * @param tokenizers - finds the tokenizer of a model that is not served.
 */
export function serviceHandlers(
  api: Api,
  extensions: readonly string[],
  tokenizers: (model: string) => Promise<TokenizerFiles | undefined>,
): Pick<Handlers, ServiceOperation> {
  return {
    clientConfig: () => ({
      ...officialClientConfig,
      // Two differences from the official defaults: no pyqwest, which is an extra package, and tokens, which whoami needs.
      pjwtAuthEnabled: true,
      protoCompressFwdbwd: api.clientConfig.protoCompressFwdbwd,
      createModelViaLoadWeights: api.clientConfig.createModelViaLoadWeights,
      sampleUseRetrieveFutures: true,
      customLossServerSide: true,
      sampleJoinSamplingSession: true,
      tinkletExtensions: ["tokenizer", "sample_tokens", "import_adapter", ...extensions],
    }),
    clientDynamicConfig: () => officialDynamicConfig,
    authToken: (_received, { caller }) => ({ jwt: api.auth.token(caller) }),

    createSession: async ({ body }, { caller, request }) => {
      checkMetadata("tags and user_metadata", [body.tags, body.userMetadata ?? {}]);
      checkText("display_name", body.displayName);
      checkText("project_id", body.projectId);
      const key = request.headers.get("x-idempotency-key") ?? undefined;
      const id = await api.store.db.write((sql) =>
        addSession(sql, {
          id: `s-${randomHex(10)}`,
          tenant: caller.tenant,
          idempotencyKey: key === undefined || key.length > 200 ? undefined : key,
          tags: body.tags,
          userMetadata: body.userMetadata,
          sdkVersion: body.sdkVersion.slice(0, 100),
          projectId: body.projectId,
          displayName: body.displayName,
          now: api.clock.now(),
        }),
      );
      api.sessionActivity.seen(id);
      api.log.info("session.created", { session: id, sdk: body.sdkVersion.slice(0, 100) });
      return { sessionId: id, type: "create_session" };
    },
    sessionHeartbeat: ({ body }, call) => {
      openSession(api, call, body.sessionId);
      return { type: "session_heartbeat" };
    },
    getServerCapabilities: () => ({
      supportedModels: [...api.models.values()].map(({ name, info }) => ({
        modelName: name,
        maxContextLength: info.contextLength,
        trainable: true,
        sampleable: true,
      })),
    }),
    getTokenizerFiles: async ({ query: { model } }) => {
      const served = api.models.get(model);
      const unserved = served === undefined ? await tokenizers(model) : undefined;
      if (unserved !== undefined) return { files: presentFiles(unserved) };
      if (served === undefined) {
        const problem = `model: ${JSON.stringify(model.slice(0, 200))} is not served here`;
        throw new Refusal(404, "no_model", problem);
      }
      try {
        const files = await served.tokenizerFiles?.();
        if (files !== undefined) return { files: presentFiles(files) };
      } catch (error) {
        if (!(error instanceof ModelError)) throw error;
        api.log.warn("tokenizer.failed", { model, error: error.message });
      }
      throw new Refusal(404, "no_tokenizer", `model: ${model} has no tokenizer files that could be downloaded`);
    },
    healthz: () => ({ status: "ok" }),
    telemetry: ({ body }) => {
      for (const event of body.events) {
        // logged, because a failing client is often the first sign of a problem of the server
        if (event.event === "UNHANDLED_EXCEPTION") {
          api.log.warn("client.failed", {
            session: body.sessionId.slice(0, 100),
            type: event.errorType.slice(0, 100),
            message: event.errorMessage.slice(0, 300),
          });
        }
      }
      return { status: "accepted" };
    },
  };
}

/** Only the files that the model has. */
function presentFiles(files: TokenizerFiles): Record<string, string> {
  return Object.fromEntries(
    Object.entries(files).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}
