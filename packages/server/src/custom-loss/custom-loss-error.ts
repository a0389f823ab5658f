/** What is wrong with a custom loss, in words for whoever wrote it: at its creation, or when it runs on a datum. */
export class CustomLossError extends Error {
  override readonly name = "CustomLossError";
  /** @param where - the node, input or metric that is meant; absent for the graph as a whole. */
  constructor(problem: string, where?: string) {
    super(where === undefined ? problem : `${where}: ${problem}`);
  }
}
