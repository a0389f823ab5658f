// The job in a page: the server is the page's own origin.
import { trainAndSample } from "./program.mjs";

globalThis.outcome = trainAndSample(location.origin).then(
  (result) => ({ result }),
  (error) => ({ error: `${error.stack ?? error}` }),
);
