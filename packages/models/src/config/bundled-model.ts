/** The name of the model in `@tinklet/base-model`, for the API and the command line. */
export const bundledModel = "tinklet/base";
