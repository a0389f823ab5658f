import type * as sdk from "tinklet";

export function program(
  library: Pick<typeof sdk, "ServiceClient" | "ModelInput" | "Datum">,
  url: string,
): Promise<void>;
export function newerProgram(sdk: typeof import("tinklet"), url: string): Promise<void>;
export const stubConfig: Readonly<Record<string, unknown>>;
