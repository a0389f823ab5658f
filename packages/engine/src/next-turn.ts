/** Yields to the event loop, in Node and in browsers. */

/** Browsers have no `setImmediate`, and their timers wait at least 4 ms when they are nested; a message to oneself does not. */
function createMessageTurn(): () => Promise<void> {
  const waiting: (() => void)[] = [];
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => waiting.shift()?.();
  return () =>
    new Promise((resume) => {
      waiting.push(resume);
      port2.postMessage(undefined);
    });
}

/** Resolves in a later turn of the event loop, after messages that have arrived. */
export const nextTurn: () => Promise<void> =
  typeof setImmediate === "function" ? () => new Promise((resume) => setImmediate(resume)) : createMessageTurn();
