/** Handlers that list, describe and change runs and checkpoints. */

import { Refusal } from "../../queue/refusal.ts";
import { expiryOf, findReadable } from "../../queue/training/checkpoint-jobs.ts";
import { archiveFiles } from "../../store/files/adapter-files.ts";
import {
  type CheckpointChange,
  type CheckpointRow,
  changeCheckpoint,
  getModel,
  type Lora,
  listModels,
  listTenantCheckpoints,
  liveCheckpoints,
  tinkerPath,
} from "../../store/tables/models.ts";
import { addAudit } from "../../store/tables/usage.ts";
import { ownCheckpoint, ownModel, readableCheckpoint } from "../access/access.ts";
import type { Api, Call, Handlers } from "../api.ts";
import { checkpointView, page, runView, type Viewer } from "../views.ts";

type RestOperation =
  | "listTrainingRuns"
  | "getTrainingRun"
  | "listCheckpoints"
  | "deleteCheckpoint"
  | "getCheckpointArchiveUrl"
  | "publishCheckpoint"
  | "unpublishCheckpoint"
  | "setCheckpointTtl"
  | "listUserCheckpoints"
  | "weightsInfo"
  | "getExternalWeightsUrls";

export function restHandlers(api: Api): Pick<Handlers, RestOperation> {
  const { sql } = api.store.db;
  const viewer = ({ caller }: Call, withPublic: boolean): Viewer => ({
    tenant: caller.tenant,
    withPublic,
    now: api.clock.now(),
  });
  const mineOrPublic = (call: Call) => (row: CheckpointRow) => row.tenant === call.caller.tenant || row.public === 1;

  /** Changes a checkpoint of the caller and adds the change to the audit log. */
  const applyChange = async (call: Call, row: CheckpointRow, event: string, change: CheckpointChange) => {
    await api.store.db.write((tx) => {
      changeCheckpoint(tx, row, change);
      const path = tinkerPath(row);
      addAudit(tx, { at: api.clock.now(), tenant: call.caller.tenant, event, modelId: row.run_id, tinkerPath: path });
    });
    return undefined;
  };
  type At = { readonly params: { readonly trainingRunId: string; readonly checkpointId: string } };
  const publish =
    (isPublic: boolean) =>
    async ({ params }: At, call: Call) => {
      const row = ownCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      // publishing twice succeeds, because clients retry a 409 for minutes
      if ((row.public === 1) === isPublic) return undefined;
      const event = isPublic ? "checkpoint_published" : "checkpoint_unpublished";
      return applyChange(call, row, event, { isPublic });
    };

  return {
    listTrainingRuns: ({ query }, call) => {
      const { limit, offset } = page(query);
      const { rows, total } = listModels(sql, {
        tenant: call.caller.tenant,
        withPublic: query.accessScope === "accessible",
        projectId: query.projectId,
        now: api.clock.now(),
        limit,
        offset,
      });
      return {
        trainingRuns: rows.map((row) => runView(sql, row, viewer(call, true))),
        cursor: { offset, limit, totalCount: total },
      };
    },
    getTrainingRun: ({ params, query }, call) => {
      const now = api.clock.now();
      const row = getModel(sql, params.trainingRunId);
      const shared =
        row !== undefined &&
        query.accessScope === "accessible" &&
        liveCheckpoints(sql, row.id, now).some((checkpoint) => checkpoint.public === 1);
      if (!shared) return runView(sql, ownModel(api, call, params.trainingRunId), viewer(call, false));
      return runView(sql, row, viewer(call, true));
    },
    listCheckpoints: ({ params }, call) => {
      const all = liveCheckpoints(sql, params.trainingRunId, api.clock.now()).filter(mineOrPublic(call));
      if (all.length === 0) ownModel(api, call, params.trainingRunId); // 404 for an unknown run, an empty list for an empty one
      return { checkpoints: all.map((row) => checkpointView(sql, row, call.caller.tenant)) };
    },
    listUserCheckpoints: ({ query }, call) => {
      const { limit, offset } = page(query);
      const { rows, total } = listTenantCheckpoints(sql, call.caller.tenant, { now: api.clock.now(), limit, offset });
      const checkpoints = rows.map((row) => checkpointView(sql, row, call.caller.tenant));
      return { checkpoints, cursor: { offset, limit, totalCount: total } };
    },
    deleteCheckpoint: async ({ params }, call) => {
      const row = ownCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      await applyChange(call, row, "checkpoint_deleted", "delete");
      await api.store.collect();
      return undefined;
    },
    getCheckpointArchiveUrl: ({ params }, call) => {
      const row = readableCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      return api.links.make(call.url.origin, `/download/archive/${row.run_id}/${row.kind}/${row.name}`);
    },
    publishCheckpoint: publish(true),
    unpublishCheckpoint: publish(false),
    setCheckpointTtl: ({ params, body }, call) => {
      const row = ownCheckpoint(api, call, params.trainingRunId, params.checkpointId);
      const until = expiryOf(body.ttlSeconds, api.clock.now());
      return applyChange(call, row, "checkpoint_ttl_set", { expiresAt: until });
    },
    getExternalWeightsUrls: ({ params }, call) => {
      const row = readableCheckpoint(api, call, params.trainingRunId, `external_weights/${params.name}`);
      const links = archiveFiles.map((file) => ({
        file,
        ...api.links.make(call.url.origin, `/download/file/${row.run_id}/${row.kind}/${row.name}/${file}`),
      }));
      return { urls: Object.fromEntries(links.map(({ file, url }) => [file, url])), expires: links[0]!.expires };
    },
    weightsInfo: ({ body }, call) => {
      let row: CheckpointRow;
      try {
        row = findReadable(sql, body.tinkerPath, [call.caller.tenant], api.clock.now());
      } catch (error) {
        throw new Refusal(404, "unknown_checkpoint", (error as Error).message);
      }
      const lora = JSON.parse(row.lora) as Lora;
      return {
        baseModel: row.base_model,
        isLora: true,
        loraRank: lora.rank,
        trainUnembed: lora.trainUnembed,
        trainMlp: lora.trainMlp,
        trainAttn: lora.trainAttn,
      };
    },
  };
}
