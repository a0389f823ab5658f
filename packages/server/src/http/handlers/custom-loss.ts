/** `create_custom_loss`: a loss is read and checked, stored, and answered by a future that is over at once. */
import { CreateCustomLossResponse, stringifyJson } from "@tinklet/wire";
import { fingerprintJson } from "../../queue/fingerprint.ts";
import { Refusal } from "../../queue/refusal.ts";
import type { Sql } from "../../store/database.ts";
import { addCustomLoss, getCustomLoss, lossBytes, lossesStored } from "../../store/tables/custom-losses.ts";
import type { SessionRow } from "../../store/tables/sessions.ts";
import { TaskError } from "../../thread/side-thread.ts";
import { openSession } from "../access/access.ts";
import type { Api, Handlers } from "../api.ts";

export function customLossHandlers(api: Api): Pick<Handlers, "createCustomLoss"> {
  return {
    createCustomLoss: async ({ body }, call) => {
      const session = openSession(api, call, body.sessionId);
      const seq = body.customLossSeqId;
      if (seq < 0 || seq > 2 ** 31 - 1) {
        throw new Refusal(422, "invalid_request", `custom_loss_seq_id: ${seq} is not between 0 and 2^31.`);
      }
      const { inputs, graph } = call.wire as { inputs: unknown; graph: unknown };
      const stored = stringifyJson({ inputs, graph });
      await api.queue.context.losses.run("readLoss", stored).catch((error: unknown) => {
        if (!(error instanceof TaskError) || error.task !== "CustomLossError") throw error;
        throw new Refusal(400, "bad_custom_loss", `The custom loss cannot run here: ${error.message}.`);
      });
      const id = `${session.id}:loss:${seq}`;
      const fingerprint = fingerprintJson("create_custom_loss", call.wire);
      const now = api.clock.now();
      const result = CreateCustomLossResponse.encode({ lossId: id });
      const requestId = await api.queue.submitAnswered(
        {
          tenant: call.caller.tenant,
          sessionId: session.id,
          kind: "create_custom_loss",
          fingerprint,
          payload: new Uint8Array(0),
          payloadType: "json",
          tokens: 0,
          now,
        },
        new TextEncoder().encode(stringifyJson(result)),
        (sql) => {
          const known = getCustomLoss(sql, id);
          if (known !== undefined && known.fingerprint !== fingerprint) {
            throw new Refusal(
              422,
              "number_reused",
              `custom_loss_seq_id ${seq} of ${session.id} was used for another loss.`,
            );
          }
          if (known !== undefined) return; // sent again
          checkRoom(api, sql, session, lossBytes(stored));
          const row = { id, session_id: session.id, tenant: session.tenant, fingerprint };
          addCustomLoss(sql, { ...row, body: stored, now });
        },
      );
      return { requestId };
    },
  };
}

/** @throws {@link Refusal} when the session, or all sessions of its tenant together, would store more than is kept. */
function checkRoom({ limits }: Api, sql: Sql, { id, tenant }: SessionRow, bytes: number): void {
  const kept = [
    [lossesStored(sql, "session_id", id), limits.lossesPerSession, "A session"],
    [lossesStored(sql, "tenant", tenant), limits.lossesPerTenant, "An account"],
  ] as const;
  for (const [stored, limit, whose] of kept) {
    if (stored.count < limit.count && stored.bytes + bytes <= limit.bytes) continue;
    const most = `${limit.count} losses and ${limit.bytes} bytes of them`;
    const message = `${whose} stores at most ${most}. They go with their session: delete some of those (tinklet data prune).`;
    throw new Refusal(400, "too_many_losses", message);
  }
}
