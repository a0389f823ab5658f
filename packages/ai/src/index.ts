/** `@tinklet/ai`: models of the Tinker API for the Vercel AI SDK, and its agents as training data. */
export type { TinkletCallOptions } from "./call-settings.ts";
export { createTinklet, samplerModel, type TinkletProvider, type TinkletProviderOptions, tinklet } from "./provider.ts";
export { type AgentRun, type AgentStep, type AgentTrajectory, record } from "./record.ts";
export { type ToDataOptions, toData } from "./to-data.ts";
export type { SamplerRecord, TokenRecord } from "./token-record.ts";
