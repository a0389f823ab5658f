/**
 * The parts of an automaton. A machine reads one string, number or fixed text, byte by byte and deterministically. Nodes define the order
 * of machines, and are opened only when reached, so that schemas may be recursive. A cost is a number of tokens that is sufficient to
 * finish: in a state of cost n, some token leads to a state of cost n − 1 or less.
 */

/** Reads one string, number or fixed text of JSON. Each machine has its own type of state. */
export interface Machine<S = never> {
  readonly id: number;
  /** The next state; undefined if the byte is not allowed. */
  step(state: S, byte: number): S | undefined;
  /** The nodes that may follow if the part is complete (`undefined` in the list: none is needed); undefined if it is not complete. */
  ending(state: S): readonly [next: Node | undefined] | undefined;
  /** Whether no byte can follow. */
  isOver(state: S): boolean;
  /** Tokens to complete it, including the node that must follow. */
  cost(state: S): number;
  /** The state as a map key. */
  keyOf(state: S): string | number;
  /** A key that is equal for states with the same allowed tokens and costs. @defaultValue `keyOf` */
  maskKeyOf?(state: S): string | number;
}

/** A machine of any state type. */
export type AnyMachine = Machine<never>;

/** The contents of a node: a machine in its start state, a sequence of nodes (empty: the empty text), or a choice of nodes. */
export type Opening =
  | { readonly kind: "machine"; readonly machine: AnyMachine; readonly state: unknown }
  | { readonly kind: "sequence"; readonly nodes: readonly Node[] }
  | { readonly kind: "choice"; readonly nodes: readonly Node[] };

/** A grammar symbol. */
export interface Node {
  readonly id: number;
  /** Tokens of the shortest text that the symbol matches; Infinity if it matches no text. */
  readonly cost: number;
  open(): Opening;
}

export function machineNode<S>(id: number, machine: Machine<S>, start: S): Node {
  const opening: Opening = { kind: "machine", machine: machine as AnyMachine, state: start };
  return { id, cost: machine.cost(start), open: () => opening };
}
