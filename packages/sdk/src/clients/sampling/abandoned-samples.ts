/** Tells a server which samples nobody waits for any more, a batch at a time. Loaded with the first of them. */
import type { Session } from "../session/session.ts";

/** Empties the list; what is added meanwhile is told, too. @param most - requests under way at once */
export async function tellAbandoned({ transport, reporter }: Session, list: string[], most: number): Promise<void> {
  while (list.length > 0) {
    const batch = list.slice(0, Math.max(1, most));
    await Promise.all(
      batch.map((requestId) =>
        transport.call("cancelFuture", { requestId }, { maxRetries: 3 }).catch((error: unknown) => {
          // The server finishes the sample, as it would have without this.
          reporter.log("debug", `Sample ${requestId} could not be cancelled: ${(error as Error).message}`);
        }),
      ),
    );
    list.splice(0, batch.length);
  }
}
