/** Valid names of checkpoints. */

/** Letters, digits, `.`, `_` and `-`, not starting with `.` or `-`, at most 255: a valid single path segment on all systems. */
const checkpointName = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$/;

/** Why a name is not valid; undefined if it is. */
export const checkpointNameProblem = (name: string): string | undefined =>
  checkpointName.test(name) && !name.includes("..")
    ? undefined
    : `path: ${JSON.stringify(name.slice(0, 80))} is not a valid checkpoint name. Use letters, digits, ".", "_" and "-" (at most 255).`;
