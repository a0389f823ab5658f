/** Handlers of the progress of runs (list, one run with its curve, event stream), and of the server's state. */
import { parseJson, type ServerStateResponse } from "@tinklet/wire";
import { listModels } from "../../store/tables/models.ts";
import { stepsAfter } from "../../store/tables/steps.ts";
import { ownModel } from "../access/access.ts";
import type { Api, Handlers } from "../api.ts";
import { watchRuns } from "../runs/run-events.ts";
import { runEvents, runProgress, stepColumns } from "../runs/run-progress.ts";
import { page } from "../views.ts";

type ProgressOperation = "listRunProgress" | "getRunSteps" | "watchRuns" | "getServerState";

/** Runs per page; each takes several database reads. */
const maxRuns = 200;

export function progressHandlers(api: Api): Pick<Handlers, ProgressOperation> {
  const { sql } = api.store.db;
  const startedAt = new Date(api.clock.now());
  return {
    listRunProgress: ({ query }, { caller }) => {
      const { offset, ...requested } = page(query);
      const limit = Math.min(requested.limit, maxRuns);
      const { rows, total } = listModels(sql, {
        tenant: caller.tenant,
        withPublic: false,
        projectId: undefined,
        now: api.clock.now(),
        limit,
        offset,
      });
      return {
        runs: rows.map((row) => runProgress(api, row)),
        cursor: { offset, limit, totalCount: total },
      };
    },
    getRunSteps: ({ params, query }, call) => {
      const row = ownModel(api, call, params.trainingRunId);
      return {
        run: runProgress(api, row),
        steps: stepColumns(stepsAfter(sql, row.id, query.after, 2 * api.limits.stepsPerRun)),
        config: {
          base_model: row.base_model,
          lora: parseJson(row.lora) as never,
          ...(row.user_metadata === null ? {} : { user_metadata: parseJson(row.user_metadata) as never }),
        },
        events: runEvents(api, row),
      };
    },
    watchRuns: ({ query }, call) => watchRuns(api, call, query),
    getServerState: async (_received, { caller }): Promise<ServerStateResponse> => {
      const rates = api.queue.context.rates.read(caller.tenant);
      const models = [...api.queue.engineQueues].map(async ([baseModel, engineQueue]) => {
        const stats = await engineQueue.engine.stats();
        return {
          baseModel,
          contextLength: api.models.get(baseModel)?.info.contextLength ?? 0,
          waitingTraining: engineQueue.waiting.training,
          waitingSamples: engineQueue.waiting.sampling,
          activeSequences: stats.activeSequences,
          weightsBytes: stats.weightsBytes,
          adaptersBytes: stats.adaptersBytes,
          cacheBytes: stats.cacheBytes,
          prefixCacheBytes: stats.prefixCacheBytes,
        };
      });
      return {
        startedAt,
        durable: api.store.durable,
        pendingRequests: api.queue.pending,
        residentMemoryBytes: process.memoryUsage.rss(),
        models: await Promise.all(models),
        rates: {
          intervalSeconds: rates.intervalSeconds,
          training: rates.training,
          sampled: rates.sampling_sample,
          prefilled: rates.sampling_prefill,
          reused: rates.sampling_prefill_cached,
        },
      };
    },
  };
}
