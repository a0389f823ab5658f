/** URLs of sessions, runs and checkpoints in the hosted service's console, as in the official SDK, or in a server's own studio. */
import { ParsedCheckpointTinkerPath } from "@tinklet/wire/client";

const consoleBase = "https://tinker.thinkingmachines.ai";

/** URL of a session, or of the list of sessions without an id. @param own - base URL of the server's studio, which lists runs */
export const sessionUrl = (sessionId: string | undefined, own?: string): string =>
  own === undefined ? `${consoleBase}/sessions${sessionId === undefined ? "" : `/${sessionId}`}` : `${own}/#/runs`;

/** URL of a training run. @param own - base URL of the server's studio */
export const runUrl = (trainingRunId: string, own?: string): string =>
  own === undefined
    ? `${consoleBase}/training_runs/${trainingRunId}`
    : `${own}/#/runs/${encodeURIComponent(trainingRunId)}`;

/**
 * URL of a checkpoint in the hosted service's console.
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

/** URL of the hosted service's playground for a sampler checkpoint. */
export function getPlaygroundUrl(tinkerPath: string): string {
  ParsedCheckpointTinkerPath.fromTinkerPath(tinkerPath);
  return `${consoleBase}/playground?mode=checkpoint&checkpoint=${encodeURIComponent(tinkerPath)}`;
}
