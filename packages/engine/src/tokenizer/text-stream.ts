/** Text as it appears, as `@tinklet/models` cuts it. */
export { createTextStream } from "@tinklet/models/tokenizer";
