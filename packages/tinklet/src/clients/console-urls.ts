/** Pages of the hosted service's console, as the official SDK links to them. */
import { ParsedCheckpointTinkerPath } from "../wire/tinker-path.ts";

const consoleBase = "https://tinker.thinkingmachines.ai";

/** The page of a session; of all sessions where there is none yet. */
export const sessionUrl = (sessionId: string | undefined): string =>
  `${consoleBase}/sessions${sessionId === undefined ? "" : `/${sessionId}`}`;

/** The page of a training run. */
export const runUrl = (trainingRunId: string): string => `${consoleBase}/training_runs/${trainingRunId}`;

/**
 * The hosted service's page of a checkpoint.
 *
 * @example
 * ```ts
 * const { path } = await trainer.saveState("epoch-1");
 * console.log(getConsoleUrl(path));
 * ```
 */
export function getConsoleUrl(tinkerPath: string): string {
  const { trainingRunId, checkpointId } = ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
  return `${consoleBase}/checkpoints/${encodeURIComponent(trainingRunId)}/${encodeURIComponent(checkpointId)}`;
}

/** The hosted service's page where a checkpoint for sampling can be tried. */
export function getPlaygroundUrl(tinkerPath: string): string {
  ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
  return `${consoleBase}/playground?mode=checkpoint&checkpoint=${encodeURIComponent(tinkerPath)}`;
}
