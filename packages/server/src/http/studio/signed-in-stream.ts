/** Ends event streams that a browser opened with a cookie when its sign-in ends. */

/**
 * The same response; if it is an event stream, it ends with the sign-in.
 *
 * @param untilSignedOut - registers a function that ends the stream; returns one that removes it when the stream has ended by itself.
 */
export function endingWithSignIn(response: Response, untilSignedOut: (end: () => void) => () => void): Response {
  const { body, status, headers } = response;
  if (body === null || !(headers.get("content-type") ?? "").startsWith("text/event-stream")) return response;
  const reader = body.getReader();
  let isOver = false;
  let forget = (): void => {};
  const finish = (): void => {
    isOver = true;
    forget();
  };
  const stream = new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        forget = untilSignedOut(() => {
          if (isOver) return;
          finish();
          controller.close();
          reader.cancel().catch(() => {});
        });
      },
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (isOver) return;
          if (!done) return controller.enqueue(value);
          finish();
          controller.close();
        } catch (error) {
          finish();
          throw error;
        }
      },
      cancel: (reason) => {
        finish();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(stream, { status, headers });
}
