// Takes the place of node:zlib in the page: the conformance kit unpacks archives with it, in cases that the page does not run.
export function gunzipSync() {
  throw new Error("there is no zlib in a browser");
}
