/** Handlers that list, describe and delete runs and checkpoints. */
import { Refusal } from "@tinklet/server/portable";
import { checkpointView, runView } from "../checkpoints.ts";
import type { PageState } from "../page.ts";
import type { HandlersOf } from "./handler.ts";

type RestOperation =
  | "listTrainingRuns"
  | "getTrainingRun"
  | "listCheckpoints"
  | "listUserCheckpoints"
  | "deleteCheckpoint"
  | "weightsInfo"
  | "deleteRun";

export function restHandlers(page: PageState): HandlersOf<RestOperation> {
  const { checkpoints } = page;
  return {
    listTrainingRuns: ({ query: { limit, offset } }) => {
      const { runs } = checkpoints;
      const shown = runs.slice(Math.max(0, offset), Math.max(0, offset) + Math.max(0, limit));
      return {
        trainingRuns: shown.map((run) => runView(run, checkpoints.of(run))),
        cursor: { offset, limit, totalCount: runs.length },
      };
    },
    getTrainingRun: ({ params }) => {
      const run = checkpoints.run(params.trainingRunId);
      return runView(run, checkpoints.of(run));
    },
    listCheckpoints: ({ params }) => ({
      checkpoints: checkpoints.of(checkpoints.run(params.trainingRunId)).map(checkpointView),
    }),
    listUserCheckpoints: ({ query: { limit, offset } }) => {
      const all = checkpoints.runs.flatMap((run) => checkpoints.of(run)).sort((a, b) => b.createdAt - a.createdAt);
      const shown = all.slice(Math.max(0, offset), Math.max(0, offset) + Math.max(0, limit));
      return { checkpoints: shown.map(checkpointView), cursor: { offset, limit, totalCount: all.length } };
    },
    deleteCheckpoint: async ({ params }) => {
      const path = `tinker://${params.trainingRunId}/${params.checkpointId}`;
      await checkpoints.delete(path);
      await page.snapshots.forget(path);
      return undefined;
    },
    weightsInfo: ({ body }) => {
      const { baseModel, lora } = checkpoints.find(body.tinkerPath);
      return {
        baseModel,
        isLora: true,
        loraRank: lora.rank,
        trainUnembed: lora.trainUnembed,
        trainMlp: lora.trainMlp,
        trainAttn: lora.trainAttn,
      };
    },
    deleteRun: async ({ params }) => {
      const id = params.trainingRunId;
      checkpoints.run(id);
      const model = page.models.get(id);
      if (model?.isBusy === true) {
        throw new Refusal(400, "model_busy", `The model ${id} has requests that have not finished; wait for them.`);
      }
      await model?.unload();
      page.models.delete(id);
      for (const key of await checkpoints.deleteRun(id)) await page.snapshots.forget(key);
      return undefined;
    },
  };
}
