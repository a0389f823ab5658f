/**
 * Handlers of run folders and evaluations. With configured keys a folder is visible only to tenants that own one of its runs, and an
 * evaluation to the one that owns all its runs.
 */
import { loadTokenizerFiles, type TokenizerFiles } from "@tinklet/models";
import type { Evaluation, RunFolder, RunFolderInfo, RunFolders } from "@tinklet/wire";
import { omitUndefined } from "@tinklet/wire/options";
import { Refusal } from "../../queue/refusal.ts";
import { getModel } from "../../store/tables/models.ts";
import type { Api, Call, Handlers } from "../api.ts";

type FolderOperation = "listRunFolders" | "getRunFolder" | "getRollouts" | "listEvaluations" | "getEvaluation";

/** Lines of answers per response. */
const maxAnswers = 500;
/** Rollouts per response. */
const maxRollouts = 2000;

/**
 * Finds the tokenizer of a model that a run folder names and that is not served, so that the studio can show its tokens as text. Only
 * tokenizers on this machine are found: nothing is downloaded. Without the name in a run folder, or with configured keys, none is found.
 */
export function folderTokenizers(
  api: Api,
  folders: RunFolders | undefined,
): (model: string) => Promise<TokenizerFiles | undefined> {
  return async (model) => {
    if (folders === undefined || api.auth.strict) return undefined;
    const isNamed = (await folders.list()).some((info) => info.model === model);
    return isNamed ? loadTokenizerFiles(model, { offline: true }).catch(() => undefined) : undefined;
  };
}

export function runFolderHandlers(api: Api, folders: RunFolders | undefined): Pick<Handlers, FolderOperation> {
  const isOwn = ({ caller }: Call, runId: string): boolean =>
    getModel(api.store.db.sql, runId)?.tenant === caller.tenant;
  const mayRead = (call: Call, { runIds }: Pick<RunFolderInfo, "runIds">): boolean =>
    !api.auth.strict || runIds.some((id) => isOwn(call, id));
  /** An evaluation has the answers of all its models. One of base models alone has no owner. */
  const mayReadEvaluation = (call: Call, { models }: Evaluation): boolean => {
    const runs = models.flatMap(({ path }) => (path === null ? [] : [/^tinker:\/\/([^/]+)\//.exec(path)?.[1] ?? ""]));
    return !api.auth.strict || (runs.length > 0 && runs.every((id) => isOwn(call, id)));
  };
  const missing = (id: string): Refusal =>
    new Refusal(404, "not_found", `There is no run folder ${JSON.stringify(id.slice(0, 100))} of this key.`);
  const view = (info: RunFolderInfo): RunFolder => {
    const { id: folderId, updatedAt, metric, model, score, ...rest } = info;
    return { ...rest, folderId, updatedAt: new Date(updatedAt), ...omitUndefined({ metric, model, score }) };
  };
  return {
    listRunFolders: async (_received, call) => {
      const found = (await folders?.list()) ?? [];
      return { folders: found.filter((info) => mayRead(call, info)).map(view) };
    },
    getRunFolder: async ({ params, query }, call) => {
      const found = await folders?.read(params.folderId, Math.max(0, query.after));
      if (found === undefined || !mayRead(call, found.info)) throw missing(params.folderId);
      const { info, spending, result, ...files } = found;
      return { folder: view(info), ...files, ...omitUndefined({ spending, result }) };
    },
    listEvaluations: async (_received, call) => {
      const found = (await folders?.evaluations?.list()) ?? [];
      return { evaluations: found.filter((one) => mayReadEvaluation(call, one)) };
    },
    getEvaluation: async ({ params, query }, call) => {
      const page = { offset: Math.max(0, query.offset), limit: Math.min(Math.max(0, query.limit), maxAnswers) };
      const found = await folders?.evaluations?.read(params.evaluationId, page);
      if (found === undefined || !mayReadEvaluation(call, found.evaluation)) {
        const id = JSON.stringify(params.evaluationId.slice(0, 100));
        throw new Refusal(404, "not_found", `There is no evaluation ${id} of this key.`);
      }
      return found;
    },
    getRollouts: async ({ params, query }, call) => {
      const info = (await folders?.list())?.find(({ id }) => id === params.folderId);
      if (folders === undefined || info === undefined || !mayRead(call, info)) throw missing(params.folderId);
      const page = { offset: Math.max(0, query.offset), limit: Math.min(Math.max(0, query.limit), maxRollouts) };
      const found = await folders.rollouts(info.id, query.file, page);
      if (found === undefined) {
        throw new Refusal(
          404,
          "not_found",
          `file: the run folder has no rollouts ${JSON.stringify(query.file.slice(0, 100))}`,
        );
      }
      return found;
    },
  };
}
