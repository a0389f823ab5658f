/** How large a custom loss may be. A graph is data from outside: everything it can make grow has a bound here. */
export const bounds = {
  /** Nodes of a graph; a long written loss has about a hundred. */
  nodes: 1000,
  /** Inputs, log-probs included, as in the official client. */
  inputs: 16,
  /** Lists within lists of one argument. */
  depth: 4,
  /** Entries of one list, and of the metrics. */
  items: 256,
  /** Characters of a name or a text. */
  text: 200,
  /** Axes of an intermediate tensor. */
  rank: 6,
  /** Elements of one intermediate tensor. */
  elements: 4 * 1024 * 1024,
  /** Elements of everything that one datum's evaluation makes: it runs in one turn of the event loop. */
  allElements: 16 * 1024 * 1024,
  /** Elements of everything that a whole pass makes. */
  passElements: 512 * 1024 * 1024,
} as const;
