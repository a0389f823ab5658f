/** `tinker://` paths, which identify checkpoints. */

import { describe } from "../describe.ts";
import { InvalidInputError } from "../errors.ts";

const kinds = { weights: "training", sampler_weights: "sampler", external_weights: "external" } as const;

/**
 * The parts of a checkpoint's path.
 *
 * @example
 * ```ts
 * ParsedCheckpointTinkerPath.fromTinkerPath("tinker://run-1/weights/final").checkpointId; // "weights/final"
 * ```
 */
export class ParsedCheckpointTinkerPath {
  /** The whole path. */
  readonly tinkerPath: string;
  /** The run that the checkpoint belongs to. */
  readonly trainingRunId: string;
  /** `training`: training can resume from it; `sampler`: for sampling only; `external`: files for other programs. */
  readonly checkpointType: "training" | "sampler" | "external";
  /** `weights/<name>`, `sampler_weights/<name>` or `external_weights/<name>`. */
  readonly checkpointId: string;

  private constructor(path: string, run: string, kind: keyof typeof kinds, name: string) {
    this.tinkerPath = path;
    this.trainingRunId = run;
    this.checkpointType = kinds[kind];
    this.checkpointId = `${kind}/${name}`;
  }

  /** Parses a path. @throws {@link InvalidInputError} when it is not `tinker://<run>/weights|sampler_weights|external_weights/<name>`. */
  static fromTinkerPath(tinkerPath: string): ParsedCheckpointTinkerPath {
    const fail = (problem: string): never => {
      throw new InvalidInputError("tinkerPath", `${describe(tinkerPath)} ${problem}`, {
        hint: "The path of a checkpoint is tinker://<run>/weights/<name> or tinker://<run>/sampler_weights/<name>.",
      });
    };
    if (typeof tinkerPath !== "string" || !tinkerPath.startsWith("tinker://")) fail("does not begin with tinker://");
    const segments = tinkerPath.slice("tinker://".length).split("/");
    const [run, kind, name] = segments as [string, string, string];
    if (segments.length !== 3) fail(`has ${segments.length} parts after tinker://, not three`);
    if (!Object.hasOwn(kinds, kind)) fail(`names ${describe(kind)} where weights or sampler_weights belongs`);
    if (run === "" || name === "") fail(`has an empty ${run === "" ? "run" : "name"}`);
    return new ParsedCheckpointTinkerPath(tinkerPath, run, kind as keyof typeof kinds, name);
  }
}
