/**
 * The parts of an automaton. A machine reads one string, number or fixed text, byte by byte and without choice; nodes say what follows
 * what, and are opened only when a text gets there, so that schemas may refer to themselves. Costs are numbers of tokens that are sure
 * to be enough to finish: whatever costs n has a token after which the rest costs n − 1 at most.
 */

/** Reads one part of JSON. Its states are values of its own. */
export interface Machine<S = never> {
  readonly id: number;
  /** Where a byte leads; undefined where it may not stand. */
  step(state: S, byte: number): S | undefined;
  /** What must follow before the rest, if what was read is whole (`undefined` in the list: nothing); absent if it is not. */
  ending(state: S): readonly [next: Node | undefined] | undefined;
  /** Whether no byte can follow. */
  isOver(state: S): boolean;
  /** Tokens until it is whole, and those of what must follow. */
  cost(state: S): number;
  /** The state as a key. */
  keyOf(state: S): string | number;
  /** A key that states share where the same tokens may stand at the same costs. Absent: `keyOf`. */
  maskKeyOf?(state: S): string | number;
}

/** A machine that forgot what its states are. */
export type AnyMachine = Machine<never>;

/** What a node is made of: a machine at its start, nodes one behind the other (of none: the empty text), or one of several. */
export type Opening =
  | { readonly kind: "machine"; readonly machine: AnyMachine; readonly state: unknown }
  | { readonly kind: "sequence"; readonly nodes: readonly Node[] }
  | { readonly kind: "choice"; readonly nodes: readonly Node[] };

/** What may stand in some place. */
export interface Node {
  readonly id: number;
  /** Tokens of a shortest text. Infinity: there is none. */
  readonly cost: number;
  open(): Opening;
}

export function machineNode<S>(id: number, machine: Machine<S>, start: S): Node {
  const opening: Opening = { kind: "machine", machine: machine as AnyMachine, state: start };
  return { id, cost: machine.cost(start), open: () => opening };
}
