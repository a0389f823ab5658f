/**
 * `@tinklet/server/portable`: what the server does between the wire and the engine, for a server without HTTP and without a database
 * (`@tinklet/browser`). No `node:` imports.
 */
export { officialClientConfig, officialDynamicConfig } from "./http/client-config.ts";
export { jsonForm } from "./http/json-form.ts";
export { decodePass, lossRequest, passResult, sampleRequest, sampleResult } from "./queue/engine-input.ts";
export { engineSeed } from "./queue/engine-seed.ts";
export { Futures, type Settled } from "./queue/futures.ts";
export { Refusal } from "./queue/refusal.ts";
export { targetCells } from "./queue/sampling/prompt-targets.ts";
export { sampleProblem } from "./queue/sampling/sample-problem.ts";
export { fedToken, TokenFeeds } from "./queue/sampling/token-feed.ts";
export { checkpointNameProblem } from "./queue/training/checkpoint-name.ts";
export { SeqOrder } from "./queue/training/seq-order.ts";
export { wireMessage } from "./queue/wire-field.ts";
