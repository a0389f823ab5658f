/** `create_custom_loss`: a loss is read and checked, stored, and answered by a future that is over at once. */
import { CreateCustomLossResponse, stringifyJson } from "tinklet/wire";
import { CustomLossError } from "../../custom-loss/custom-loss-error.ts";
import { readLoss } from "../../custom-loss/read-loss.ts";
import { fingerprintJson } from "../../queue/fingerprint.ts";
import { Refusal } from "../../queue/refusal.ts";
import { addCustomLoss, countCustomLosses, getCustomLoss } from "../../store/custom-losses.ts";
import { openSession } from "../access.ts";
import type { Api, Handlers } from "../api.ts";

/** Losses that one session may store. */
const maxLosses = 1000;

export function customLossHandlers(api: Api): Pick<Handlers, "createCustomLoss"> {
  return {
    createCustomLoss: async ({ body }, call) => {
      const session = openSession(api, call, body.sessionId);
      const seq = body.customLossSeqId;
      if (seq < 0 || seq > 2 ** 31 - 1) {
        throw new Refusal(422, "invalid_request", `custom_loss_seq_id: ${seq} is not between 0 and 2^31.`);
      }
      try {
        readLoss(body.inputs, body.graph);
      } catch (error) {
        if (!(error instanceof CustomLossError)) throw error;
        throw new Refusal(400, "bad_custom_loss", `The custom loss cannot run here: ${error.message}.`);
      }
      const id = `${session.id}:loss:${seq}`;
      const { inputs, graph } = call.wire as { inputs: unknown; graph: unknown };
      const fingerprint = fingerprintJson("create_custom_loss", call.wire);
      const now = api.clock.now();
      const result = CreateCustomLossResponse.encode({ lossId: id });
      const requestId = await api.queue.answered(
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
          if (countCustomLosses(sql, session.id) >= maxLosses) {
            throw new Refusal(400, "too_many_losses", `A session stores at most ${maxLosses} losses.`);
          }
          const row = { id, session_id: session.id, tenant: session.tenant, fingerprint };
          addCustomLoss(sql, { ...row, body: stringifyJson({ inputs, graph }), now });
        },
      );
      return { requestId };
    },
  };
}
