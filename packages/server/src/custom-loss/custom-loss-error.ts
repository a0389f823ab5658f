/** An error in a custom loss, found at its creation or when it runs on a datum. The message is sent to the client. */
export class CustomLossError extends Error {
  override readonly name = "CustomLossError";
  /** @param where - the node, input or metric; absent for the whole graph. */
  constructor(problem: string, where?: string) {
    super(where === undefined ? problem : `${where}: ${problem}`);
  }
}
