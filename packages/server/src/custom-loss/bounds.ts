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
  /** Elements of one tensor, an axis of 0 counted as 1: folding such an axis away leaves the others. */
  elements: 4 * 1024 * 1024,
  /** Elements of all arrays that one datum's evaluation makes and walks, its inputs among them. */
  allElements: 16 * 1024 * 1024,
  /** Elements of everything that a whole pass makes. */
  passElements: 512 * 1024 * 1024,
  /** Elements of the targets of a whole pass. */
  targetElements: 16 * 1024 * 1024,
} as const;

/** The elements that a tensor of this shape can come to: an axis of 0 counts as 1, since operations fold it away. */
export const extentOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * Math.max(b, 1), 1);
