/** What explains a failure: loaded at the first one by `load-hints.ts`. */
export { hintFor } from "./hints.ts";
export { unsupported } from "./unsupported.ts";
