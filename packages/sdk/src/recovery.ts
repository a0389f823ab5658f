/**
 * `@tinklet/sdk/recovery`: whether an error means that the server no longer has a model. The option `recovery` of training clients and
 * the runs of the cookbook use it; a loop of your own can, too.
 */
export { diagnosed, type ModelLoss, ModelLostError, modelLossOf } from "./clients/training/recovery/model-loss.ts";
