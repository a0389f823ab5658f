/** Pages that show sessions, runs and checkpoints: the hosted service's console, as the official SDK links to it, or a server's own. */
import { ParsedCheckpointTinkerPath } from "@tinklet/wire/client";

const consoleBase = "https://tinker.thinkingmachines.ai";

/** The page of a session, of all sessions where there is none yet. @param own - a server with a page of its own, which lists runs */
export const sessionUrl = (sessionId: string | undefined, own?: string): string =>
  own === undefined ? `${consoleBase}/sessions${sessionId === undefined ? "" : `/${sessionId}`}` : `${own}/#/runs`;

/** The page of a training run. @param own - a server with a page of its own */
export const runUrl = (trainingRunId: string, own?: string): string =>
  own === undefined
    ? `${consoleBase}/training_runs/${trainingRunId}`
    : `${own}/#/runs/${encodeURIComponent(trainingRunId)}`;

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
