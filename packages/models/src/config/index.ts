/** `@tinklet/models/config`: what a configuration says about a model, and the errors about models. No `node:` imports. */
export { ConfigError, ModelError, TokenizerError, WeightsError } from "../errors.ts";
export { HubError, type HubErrorCode } from "../hub/hub-error.ts";
export { endOfTextIds } from "./end-of-text.ts";
export { type ModelConfig, type RopeScaling, readConfig } from "./read-config.ts";
export {
  attentionLinears,
  countParameters,
  linearSizes,
  mlpLinears,
  sameShape,
  weightShapes,
} from "./tensor-shapes.ts";
