/** `@tinklet/models/config`: reads model configurations; error classes. No `node:` imports. */
export { ConfigError, ModelError, TokenizerError, WeightsError } from "../errors.ts";
export { HubError, type HubErrorCode } from "../hub/hub-error.ts";
export { bundledModel } from "./bundled-model.ts";
export { endOfTextIds } from "./end-of-text.ts";
export { loraScale } from "./lora-scale.ts";
export { type ModelConfig, type RopeScaling, readConfig } from "./read-config.ts";
export {
  attentionLinears,
  countParameters,
  linearSizes,
  mlpLinears,
  sameShape,
  weightShapes,
} from "./tensor-shapes.ts";
