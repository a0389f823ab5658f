/** Figures of runs that a web page can compute: the diagnosis of metrics, and prices. Needs no SDK, no files and no Node. */
export { priceOf, trainingCost } from "./cost/prices.ts";
export { Diagnosis, type Finding, type FindingCode } from "./runs/diagnosis.ts";
