import type * as sdk from "tinklet";

export function program(
  library: Pick<typeof sdk, "ServiceClient" | "ModelInput" | "Datum">,
  url: string,
): Promise<void>;
