/** `GET /models` of both APIs: the models that the caller may use, with their context lengths. `POST /embeddings` is refused. */
import { Refusal } from "../../queue/refusal.ts";
import { startTimes } from "../../store/tables/starts.ts";
import { jsonAnswer } from "../answers.ts";
import type { Api } from "../api.ts";
import { findModel, listModels, type NamedModel } from "./model-names.ts";
import type { ChatHandlers } from "./routes.ts";

type ModelOperation = "oaiListModels" | "oaiGetModel" | "oaiEmbeddings" | "anthropicListModels" | "anthropicGetModel";

export function modelHandlers(api: Api): Pick<ChatHandlers, ModelOperation> {
  /** A base model has no time of its own: the first start of the server is the same in every response. */
  const [firstStart = 0] = startTimes(api.store.db.sql);
  const createdAt = (model: NamedModel): number => (model.filesId === undefined ? firstStart : model.createdAt);

  const openaiModel = (model: NamedModel): object => ({
    id: model.id,
    object: "model",
    created: Math.floor(createdAt(model) / 1000),
    owned_by: "tinklet",
    context_length: model.served.info.contextLength,
    max_model_len: model.served.info.contextLength,
    ...(model.filesId === undefined ? {} : { parent: model.served.name, tinker_path: model.path }),
  });
  const anthropicModel = (model: NamedModel): object => ({
    type: "model",
    id: model.id,
    display_name: model.id,
    created_at: new Date(createdAt(model)).toISOString(),
    ...(model.path === undefined ? {} : { tinker_path: model.path }),
  });

  return {
    oaiListModels: ({ caller }) =>
      jsonAnswer({ object: "list", data: listModels(api, caller.tenant).map(openaiModel) }),
    oaiGetModel: ({ caller }, { model }) => jsonAnswer(openaiModel(findModel(api, caller.tenant, model))),
    oaiEmbeddings: () => {
      throw new Refusal(404, "no_embeddings", "This server has no embeddings. Use a server with an embedding model.");
    },
    anthropicListModels: ({ caller }) => {
      const models = listModels(api, caller.tenant);
      const ends = { first_id: models.at(0)?.id ?? null, last_id: models.at(-1)?.id ?? null };
      return jsonAnswer({ data: models.map(anthropicModel), has_more: false, ...ends });
    },
    anthropicGetModel: ({ caller }, { model }) => jsonAnswer(anthropicModel(findModel(api, caller.tenant, model))),
  };
}
