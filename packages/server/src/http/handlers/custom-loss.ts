/** `create_custom_loss`: validates and stores a loss; its future is finished at once. */
import { CreateCustomLossResponse, stringifyJson } from "@tinklet/wire";
import { fingerprintJson } from "../../queue/fingerprint.ts";
import { Refusal } from "../../queue/refusal.ts";
import type { Sql } from "../../store/database.ts";
import { addCustomLoss, getCustomLoss, lossBytes, lossesStored } from "../../store/tables/custom-losses.ts";
import type { SessionRow } from "../../store/tables/sessions.ts";
import { TaskError } from "../../thread/side-thread.ts";
import { openSession } from "../access/access.ts";
import type { Api, Handlers } from "../api.ts";
import { checkNumber } from "./fields.ts";

export function customLossHandlers(api: Api): Pick<Handlers, "createCustomLoss"> {
  return {
    createCustomLoss: async ({ body }, call) => {
      const session = openSession(api, call, body.sessionId);
      const seq = body.customLossSeqId;
      checkNumber("custom_loss_seq_id", seq);
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
          if (known !== undefined) return; // a retry of the same loss
          checkStoredLimits(api, sql, session, lossBytes(stored));
          const row = { id, session_id: session.id, tenant: session.tenant, fingerprint };
          addCustomLoss(sql, { ...row, body: stored, now });
        },
      );
      return { requestId };
    },
  };
}

/** @throws {@link Refusal} when the session, or all sessions of its tenant together, would exceed their limits. */
function checkStoredLimits({ limits }: Api, sql: Sql, { id, tenant }: SessionRow, bytes: number): void {
  const limited = [
    [lossesStored(sql, "session_id", id), limits.lossesPerSession, "session"],
    [lossesStored(sql, "tenant", tenant), limits.lossesPerTenant, "key"],
  ] as const;
  for (const [stored, limit, owner] of limited) {
    if (stored.count < limit.count && stored.bytes + bytes <= limit.bytes) continue;
    const most = `The custom losses of a ${owner} must be at most ${limit.count} with ${limit.bytes} bytes together`;
    const got = `got ${stored.count + 1} with ${stored.bytes + bytes}`;
    const fix = "Losses are deleted with their session (npx tinklet data prune).";
    throw new Refusal(400, "too_many_losses", `${most}, ${got}. ${fix}`);
  }
}
