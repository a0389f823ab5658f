/** Cancels abandoned samples on the server, so that it stops computing them. Loaded on first use. */
import type { Session } from "../session/session.ts";

/** Cancels every sample of the list and empties it, including ids added meanwhile. @param most - maximum number of concurrent requests */
export async function tellAbandoned({ transport, reporter }: Session, list: string[], most: number): Promise<void> {
  while (list.length > 0) {
    const batch = list.slice(0, Math.max(1, most));
    await Promise.all(
      batch.map((requestId) =>
        transport.call("cancelFuture", { requestId }, { maxRetries: 3 }).catch((error: unknown) => {
          // The server completes the sample, as it would without the cancellation.
          reporter.log("debug", `Sample ${requestId} could not be cancelled: ${(error as Error).message}`);
        }),
      ),
    );
    list.splice(0, batch.length);
  }
}
