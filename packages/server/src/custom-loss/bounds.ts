/** Size limits of custom losses. A graph is untrusted input: every size that it controls has a limit here. */
export const bounds = {
  /** Nodes of a graph; a long handwritten loss has about a hundred. */
  nodes: 1000,
  /** Inputs including log-probs, as in the official client. */
  inputs: 16,
  /** Nesting depth of one argument. */
  depth: 4,
  /** Entries of one list, and of the metrics. */
  items: 256,
  /** Characters of a name or a string. */
  text: 200,
  /** Rank of an intermediate tensor. */
  rank: 6,
  /** Elements of one tensor. An axis of size 0 counts as 1, because a reduction over it leaves the other axes. */
  elements: 4 * 1024 * 1024,
  /** Elements of all arrays that the evaluation of one datum allocates or iterates over, including its inputs. */
  allElements: 16 * 1024 * 1024,
  /** The same for all data of a pass. */
  passElements: 512 * 1024 * 1024,
  /** Elements of the targets of a pass. */
  targetElements: 16 * 1024 * 1024,
} as const;

/** The size of a shape for the limits: an axis of size 0 counts as 1, because reductions can remove it. */
export const extentOf = (shape: readonly number[]): number => shape.reduce((a, b) => a * Math.max(b, 1), 1);
