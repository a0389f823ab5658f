import type * as sdk from "@tinklet/sdk";
import type { FaultScript } from "./faults.ts";
import type { StubServer } from "./stub-server.ts";

export function faultScript(seed: number, oneIn?: number): { script: FaultScript; counts: Record<string, number> };
export function random(seed: number): () => number;
export function drill(
  library: Pick<typeof sdk, "ServiceClient" | "ModelInput" | "Datum" | "TinkerError">,
  options: {
    calls: number;
    seed: number;
    stub: StubServer;
    client: sdk.ClientOptions;
    wait: <T>(promise: PromiseLike<T>, what: string) => Promise<T>;
    jumpClock?: () => void;
  },
): Promise<{
  outcomes: { ok: number; failed: number };
  errors: Record<string, number>;
  problems: string[];
  requests: number;
  repeats: number;
  polls: number;
}>;
