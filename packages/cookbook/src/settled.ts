/** Marks a promise as handled: its failure is reported when it is awaited, not as an unhandled rejection before. */
export function settled<T>(work: PromiseLike<T>): Promise<T> {
  const promise = Promise.resolve(work);
  promise.catch(() => {});
  return promise;
}
