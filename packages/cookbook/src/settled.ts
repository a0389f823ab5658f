/** A promise whose failure is looked at later: it must not end the process in the meantime. */
export function settled<T>(work: PromiseLike<T>): Promise<T> {
  const promise = Promise.resolve(work);
  promise.catch(() => {});
  return promise;
}
