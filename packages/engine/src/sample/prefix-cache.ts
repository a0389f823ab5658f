/**
 * The prefix cache: a tree of KV blocks per weights and scope, and for whole prompts the distribution of the next token. Nothing is shared
 * across weights or scopes. Evicts the least recently used blocks, leaves before their parents; leased blocks stay. The caller decides the
 * size.
 */
import type { AdapterWeights } from "../adapter/adapter.ts";
import type { KvBlock } from "./kv-block.ts";

/** Tokens of a block. Smaller blocks find longer prefixes of a growing conversation; larger ones cost less bookkeeping. */
export const blockTokens = 16;

/** The distribution of the next token of one sequence. */
export interface Distribution {
  readonly logits: Float32Array;
  /** At the sequence's temperature. */
  readonly probabilities: Float32Array;
  /** Log-sum-exp of the logits. */
  readonly logSumExp: number;
}

/** Requests that share prefixes. */
export interface PrefixSpace {
  /** Undefined for the base model. */
  readonly weights: AdapterWeights | undefined;
  readonly scope: string;
}

interface Tree {
  readonly space: PrefixSpace;
  readonly root: Node;
  /** Number of open leases. */
  leases: number;
  /** Set when the tree was dropped: blocks still being computed for it are not stored. */
  dropped: boolean;
}

/** An entry that can be evicted. */
interface Entry {
  readonly tree: Tree;
  readonly block: KvBlock;
  readonly bytes: number;
  /** Number of leases. */
  users: number;
  readonly detach: () => void;
}

interface Node {
  readonly parent: Node | undefined;
  /** Undefined for roots. */
  readonly entry: Entry | undefined;
  readonly block: KvBlock | undefined;
  readonly children: Map<string, Node>;
  readonly endings: Map<string, { readonly entry: Entry; readonly ending: Ending }>;
}

/** A whole prompt: its last block and the distribution after it. */
export interface Ending {
  readonly block: KvBlock;
  readonly last: Distribution;
}

/** A request's lease: the blocks that it found, and the methods that add new ones. */
export interface PrefixLease {
  /** The prompt's cached whole blocks, in order; added blocks are appended. */
  readonly blocks: readonly KvBlock[];
  /** The rest of the prompt, if exactly this prompt is cached. */
  readonly ending: Ending | undefined;
  /** Tokens that need not be computed. */
  readonly hitTokens: number;
  /** Adds the next whole block. */
  add(block: KvBlock): void;
  /** Adds the end of the prompt. */
  end(ending: Ending): void;
  /** Releases the blocks. Idempotent. */
  release(): void;
}

/** A prompt and the temperature of its distribution. */
export interface PrefixQuery extends PrefixSpace {
  readonly prompt: Int32Array;
  readonly coldness: number;
  /** Number of tokens at the start that may come from the cache; the whole prompt if nothing in it is scored. */
  readonly usable: number;
}

export interface PrefixCache {
  readonly bytes: number;
  /** All stored blocks. */
  blocks(): Iterable<KvBlock>;
  /** Number of cached tokens at the start of a prompt. */
  match(query: PrefixQuery): number;
  /** Leases the cached prefix of a prompt. */
  lease(query: PrefixQuery): PrefixLease;
  /** Evicts the least recently used entries until at most `limitBytes` are left, or only leased ones. */
  shrinkTo(limitBytes: number): void;
  /** Drops all entries of weights that no longer exist. */
  keepOnly(isHeld: (weights: AdapterWeights) => boolean): void;
}

/** One character per byte (windows-1252, which maps no two bytes to one character); `Buffer` is not in browsers. */
const bytesAsText = new TextDecoder("latin1");
/** Token ids as a map key. */
const keyOf = (tokens: Int32Array): string =>
  bytesAsText.decode(new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength));

/** Start of the last block of a prompt of this length; that block is always computed, for its distribution. */
export const lastBlockStart = (length: number): number => Math.floor((length - 1) / blockTokens) * blockTokens;

export const createPrefixCache = (): PrefixCache => {
  const trees: Tree[] = [];
  /** Entries, least recently used first. A node is marked used after its children, so that the first entry is always a leaf. */
  const order = new Set<Entry>();
  let bytes = 0;

  const treeOf = ({ weights, scope }: PrefixSpace): Tree | undefined =>
    trees.find(({ space }) => space.weights === weights && space.scope === scope);
  const touch = (entry: Entry): void => {
    if (order.delete(entry)) order.add(entry);
  };
  const insert = (entry: Entry): void => {
    order.add(entry);
    bytes += entry.bytes;
  };
  /** Drops a tree that is empty and has no lease. */
  const forgetIfEmpty = (tree: Tree): void => {
    const { root, leases } = tree;
    const index = leases === 0 && root.children.size === 0 && root.endings.size === 0 ? trees.indexOf(tree) : -1;
    if (index >= 0) trees.splice(index, 1);
  };
  const drop = (entry: Entry): void => {
    if (!order.delete(entry)) return;
    bytes -= entry.bytes;
    entry.detach();
    forgetIfEmpty(entry.tree);
  };
  const endingKey = ({ prompt, coldness }: PrefixQuery): string =>
    `${coldness}:${keyOf(prompt.subarray(lastBlockStart(prompt.length)))}`;

  /** The nodes of a prompt, from the root. */
  const pathOf = (tree: Tree, { prompt, usable }: PrefixQuery): Node[] => {
    const path = [tree.root];
    const last = Math.min(usable, lastBlockStart(prompt.length));
    for (let at = 0; at + blockTokens <= last; at += blockTokens) {
      const next = path.at(-1)!.children.get(keyOf(prompt.subarray(at, at + blockTokens)));
      if (!next) break;
      path.push(next);
    }
    return path;
  };
  const endingOf = (path: readonly Node[], query: PrefixQuery) => {
    const { length } = query.prompt;
    const isWhole = query.usable === length && (path.length - 1) * blockTokens === lastBlockStart(length);
    return isWhole ? path.at(-1)!.endings.get(endingKey(query)) : undefined;
  };

  const lease = (query: PrefixQuery): PrefixLease => {
    const { prompt, weights, scope } = query;
    let tree = treeOf(query);
    if (!tree) {
      const root: Node = {
        parent: undefined,
        entry: undefined,
        block: undefined,
        children: new Map(),
        endings: new Map(),
      };
      tree = { space: { weights, scope }, root, leases: 0, dropped: false };
      trees.push(tree);
    }
    const own = tree;
    own.leases++;
    let released = false;
    const path = pathOf(own, query);
    const blocks = path.flatMap(({ block }) => block ?? []);
    const found = endingOf(path, query);
    const held = new Set<Entry>();
    const hold = (entry: Entry): void => {
      if (held.has(entry)) return;
      held.add(entry);
      entry.users++;
    };
    /** Marks the nodes used, deepest first: see `order`. */
    const touchPath = (): void => {
      for (const { entry } of path.toReversed()) if (entry) touch(entry);
    };
    for (const { entry } of path) if (entry) hold(entry);
    if (found) {
      hold(found.entry);
      touch(found.entry);
    }
    touchPath();
    const startTokens = (path.length - 1) * blockTokens;
    return {
      blocks,
      ending: found?.ending,
      hitTokens: found ? prompt.length : startTokens,
      add: (block) => {
        blocks.push(block);
        if (own.dropped) return;
        const parent = path.at(-1)!;
        const at = (path.length - 1) * blockTokens;
        const key = keyOf(prompt.subarray(at, at + blockTokens));
        let node = parent.children.get(key);
        if (!node) {
          const entry: Entry = {
            tree: own,
            block,
            bytes: block.byteLength,
            users: 0,
            detach: () => parent.children.delete(key),
          };
          node = { parent, entry, block, children: new Map(), endings: new Map() };
          parent.children.set(key, node);
          insert(entry);
        }
        path.push(node);
        hold(node.entry!);
        touchPath();
      },
      end: (ending) => {
        const node = path.at(-1)!;
        const key = endingKey(query);
        if (own.dropped || node.endings.has(key)) return;
        const { block, last } = ending;
        const entry: Entry = {
          tree: own,
          block,
          bytes: block.byteLength + last.logits.byteLength + last.probabilities.byteLength,
          users: 0,
          detach: () => node.endings.delete(key),
        };
        node.endings.set(key, { entry, ending });
        insert(entry);
        hold(entry);
        touchPath();
      },
      release: () => {
        if (released) return;
        released = true;
        for (const entry of held) entry.users--;
        own.leases--;
        forgetIfEmpty(own);
      },
    };
  };

  return {
    get bytes() {
      return bytes;
    },
    *blocks() {
      for (const { block } of order) yield block;
    },
    match: (query) => {
      const tree = treeOf(query);
      if (!tree) return 0;
      const path = pathOf(tree, query);
      return endingOf(path, query) ? query.prompt.length : (path.length - 1) * blockTokens;
    },
    lease,
    shrinkTo: (limitBytes) => {
      for (const entry of order) {
        if (bytes <= limitBytes) return;
        if (entry.users === 0) drop(entry);
      }
    },
    keepOnly: (isHeld) => {
      const gone = trees.filter(({ space }) => space.weights !== undefined && !isHeld(space.weights));
      for (const tree of gone) {
        tree.dropped = true;
        trees.splice(trees.indexOf(tree), 1);
      }
      if (gone.length > 0) for (const entry of order) if (entry.tree.dropped) drop(entry);
    },
  };
};
