/** The configuration of a model, as `@tinklet/models` reads it. */
export { type ModelConfig, type RopeScaling, readConfig } from "@tinklet/models/config";
