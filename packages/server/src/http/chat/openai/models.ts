/** `GET /models` of OpenAI's API: the models that the caller may use, with their context lengths. */
import { jsonAnswer } from "../../answers.ts";
import type { Api } from "../../api.ts";
import { findModel, listModels, type NamedModel } from "../model-names.ts";
import type { ChatHandlers } from "../routes.ts";

export function modelHandlers(api: Api): Pick<ChatHandlers, "oaiListModels" | "oaiGetModel"> {
  return {
    oaiListModels: ({ caller }) =>
      jsonAnswer({ object: "list", data: listModels(api, caller.tenant).map((model) => described(model)) }),
    oaiGetModel: ({ caller }, { model }) => jsonAnswer(described(findModel(api, caller.tenant, model))),
  };
}

const described = ({ id, served, filesId, createdAt }: NamedModel): object => ({
  id,
  object: "model",
  created: Math.floor(createdAt / 1000),
  owned_by: "tinklet",
  context_length: served.info.contextLength,
  max_model_len: served.info.contextLength,
  ...(filesId === undefined ? {} : { parent: served.name }),
});
