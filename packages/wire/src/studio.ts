/**
 * The interface between server and studio: the files of the page that the server serves, and the run folders that it lists. The package
 * `@tinklet/studio` implements it; it is optional. The interfaces are here because server and studio do not import each other.
 */
import type { Evaluation, EvaluationResponse } from "./messages/evaluations.ts";
import type {
  RolloutsResponse,
  RunFileRow,
  RunFolderResult,
  RunFolderScore,
  RunFolderSpending,
} from "./messages/run-folders.ts";

/** A file of the page. */
export interface StudioFile {
  readonly bytes: Uint8Array;
  /** The same bytes, compressed with gzip. */
  readonly gzip: Uint8Array;
  readonly contentType: string;
  /** Changes with the contents. */
  readonly etag: string;
}

/** The page, and the run folders that it shows besides the server's own runs. */
export interface Studio {
  /** A file by its path; `/` is the page. */
  readonly file: (path: string) => StudioFile | undefined;
  /** @defaultValue none */
  readonly folders?: RunFolders | undefined;
}

/** The folder of one run. */
export interface RunFolderInfo {
  /** Used in paths of the API: letters, digits, `.`, `_`, `-`. */
  readonly id: string;
  readonly name: string;
  /** The runs that its checkpoints belong to. A caller that owns one of them may see the folder. */
  readonly runIds: readonly string[];
  readonly updatedAt: number;
  readonly rows: number;
  /** The last value of each metric. */
  readonly last: Readonly<Record<string, number>>;
  /** Name of the main metric, whose values are in `sparkline`. */
  readonly metric: string | undefined;
  readonly sparkline: readonly number[];
  readonly config: RunFileRow;
  /** The base model that the configuration names. */
  readonly model: string | undefined;
  /** Files of rollouts, by their path in the folder. */
  readonly rollouts: readonly string[];
  /** Files of training data, by their path in the folder. */
  readonly data: readonly string[];
  readonly score?: RunFolderScore | undefined;
}

/** Reads folders of runs. */
export interface RunFolders {
  readonly list: () => Promise<readonly RunFolderInfo[]>;
  /** The values of `metrics.jsonl` after row `after`, by metric (null where a row lacks it), and the other files. */
  readonly read: (
    id: string,
    after: number,
  ) => Promise<
    | {
        readonly info: RunFolderInfo;
        readonly metrics: Readonly<Record<string, readonly (number | null)[]>>;
        readonly checkpoints: readonly RunFileRow[];
        readonly timing: readonly RunFileRow[];
        readonly spending?: RunFolderSpending | undefined;
        readonly result?: RunFolderResult | undefined;
      }
    | undefined
  >;
  /** A page of lines of a rollout file, the number of lines, and the log entries of the step. */
  readonly rollouts: (
    id: string,
    file: string,
    page: { readonly offset: number; readonly limit: number },
  ) => Promise<RolloutsResponse | undefined>;
  /** @defaultValue none */
  readonly evaluations?: Evaluations;
}

/** Reads evaluations in these folders. A caller that owns one of the models' runs may see an evaluation. */
export interface Evaluations {
  readonly list: () => Promise<readonly Evaluation[]>;
  /** An evaluation with a page of its answers. */
  readonly read: (
    id: string,
    page: { readonly offset: number; readonly limit: number },
  ) => Promise<EvaluationResponse | undefined>;
}
