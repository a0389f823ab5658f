/** Exit codes of the command line; the same as the official tool's. */
export const exitCodes = { ok: 0, error: 1, usage: 2, interrupted: 130 } as const;
