/** Deletes a training run permanently: its row, its checkpoints, and the snapshots from which its model could be restored. */
import { Refusal } from "../../queue/refusal.ts";
import { deleteModel, isBusy } from "../../store/tables/models.ts";
import { addAudit } from "../../store/tables/usage.ts";
import { ownModel } from "../access/access.ts";
import { jsonAnswer } from "../answers.ts";
import type { Api, Call } from "../api.ts";

/** @throws {@link Refusal} 404 for a run that is not the caller's, 400 while it has unfinished requests. */
export async function deleteRun(api: Api, call: Call, runId: string): Promise<Response> {
  ownModel(api, call, runId);
  const checkpoints = await api.store.db.write((sql) => {
    if (isBusy(sql, runId)) {
      const problem = `The run ${JSON.stringify(runId)} has unfinished requests. Wait for them, or cancel them.`;
      throw new Refusal(400, "run_busy", problem);
    }
    addAudit(sql, { at: api.clock.now(), tenant: call.caller.tenant, event: "run_deleted", modelId: runId });
    return deleteModel(sql, runId);
  });
  await api.store.collect();
  return jsonAnswer({ deleted_checkpoints: checkpoints });
}
