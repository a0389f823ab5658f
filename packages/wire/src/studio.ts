/**
 * What the server knows of the studio: files of a page that it hands out, and folders of runs that it lists. The package
 * `@tinklet/studio` has both; a server without it is the same server without a page. The interfaces are here because neither package
 * imports the other.
 */
import type { RolloutsResponse, RunFileRow } from "./messages/run-folders.ts";

/** A file of the page. */
export interface StudioFile {
  readonly bytes: Uint8Array;
  /** The same, packed with gzip. */
  readonly gzip: Uint8Array;
  readonly contentType: string;
  /** Changes with the contents. */
  readonly etag: string;
}

/** The page, and where it finds runs besides the server's own. */
export interface Studio {
  /** A file by its path; `/` is the page. */
  readonly file: (path: string) => StudioFile | undefined;
  /** @defaultValue none */
  readonly folders?: RunFolders | undefined;
}

/** The folder of one run. */
export interface RunFolderInfo {
  /** Stands in paths of the API: letters, digits, `.`, `_`, `-`. */
  readonly id: string;
  readonly name: string;
  /** The runs that its checkpoints belong to: whoever owns one of them may see the folder. */
  readonly runIds: readonly string[];
  readonly updatedAt: number;
  readonly rows: number;
  /** The last value of each metric. */
  readonly last: Readonly<Record<string, number>>;
  /** The main metric's name and outline. */
  readonly metric: string | undefined;
  readonly sparkline: readonly number[];
  readonly config: RunFileRow;
  /** The base model that the configuration names. */
  readonly model: string | undefined;
  /** Files of rollouts, by their path in the folder. */
  readonly rollouts: readonly string[];
  /** Files of training data, by their path in the folder. */
  readonly data: readonly string[];
}

/** Reads folders of runs. */
export interface RunFolders {
  readonly list: () => Promise<readonly RunFolderInfo[]>;
  /** Numbers of `metrics.jsonl` from the `after`-th row on, by metric, null where a row lacks one; and the other files. */
  readonly read: (
    id: string,
    after: number,
  ) => Promise<
    | {
        readonly info: RunFolderInfo;
        readonly metrics: Readonly<Record<string, readonly (number | null)[]>>;
        readonly checkpoints: readonly RunFileRow[];
        readonly timing: readonly RunFileRow[];
      }
    | undefined
  >;
  /** A page of the lines of a file of rollouts, how many there are, and what was logged beside them. */
  readonly rollouts: (
    id: string,
    file: string,
    page: { readonly offset: number; readonly limit: number },
  ) => Promise<RolloutsResponse | undefined>;
}
