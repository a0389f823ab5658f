/**
 * `@tinklet/sdk/credentials`: which key and which server a client uses, for the command line. Needs a file system. This entry is not
 * covered by semantic versioning.
 */
export { credentialSource, firstCredentials } from "./transport/credentials/auth.ts";
export { credentialsFile, hasCredentialsFile } from "./transport/credentials/credentials-file.node.ts";
export {
  keyFor,
  readCredentials,
  type StoredCredentials,
  type StoredKey,
  storedKey,
} from "./transport/credentials/stored-key.node.ts";
export { hostedBaseUrl, resolveBaseUrl } from "./transport/environment.ts";
export { checkedBaseUrl } from "./transport/http-transport.ts";
