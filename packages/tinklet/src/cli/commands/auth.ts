/** `auth login|logout|status|whoami`: the key of this machine's user, stored as the official tool stores it. */
import { hostname } from "node:os";
import {
  checkedBaseUrl,
  credentialSource,
  credentialsFile,
  firstCredentials,
  hostedBaseUrl,
  keyFor,
  readCredentials,
  resolveBaseUrl,
} from "@tinklet/sdk/credentials";
import type { WhoamiResponse } from "@tinklet/wire";
import { TinkerError } from "@tinklet/wire/errors";
import { deleteKey, describeKey } from "../auth/auth-api.ts";
import { forgetKey, storeKey } from "../auth/credential-file.ts";
import { readSecret } from "../auth/masked-input.ts";
import type { Command } from "../command.ts";
import { CliError } from "../output/explain.ts";
import type { Input } from "../parse.ts";

const keysPage = "https://tinker.thinkingmachines.ai/keys";
const hostedOrigin = new URL(hostedBaseUrl).origin;
const originOf = (input: Input): string => new URL(checkedBaseUrl(resolveBaseUrl(input.text("base-url")))).origin;
const at = (origin: string): string => (origin === hostedOrigin ? "" : ` for ${origin}`);
const pageOfKey = (id: string) => `${keysPage}/${encodeURIComponent(id)}`;

export const authLogin: Command = {
  usage: "auth login",
  about:
    "Stores an API key in ~/.tinker/credentials.json, where this tool, the SDK and the official ones find it. Asks for the key, and\n" +
    "asks the server whose it is. Only you can read the file. The key is sent to that server alone: each --base-url has a key of its\n" +
    "own. TINKER_API_KEY and TINKER_CREDENTIAL_CMD go before it.",
  async run(input, { output, signal }) {
    const file = credentialsFile();
    const origin = originOf(input);
    if (keyFor(origin, readCredentials(file)) !== undefined) {
      throw new CliError(`Already logged in${at(origin)}`, {
        hint: "Run npx tinklet auth logout before logging in again.",
      });
    }
    const name = `tinker-cli-${hostname().split(".", 1)[0]?.trim() || "unknown"}`;
    if (origin === hostedOrigin)
      output.line(`Create an API Key: ${keysPage}?new_key=true&key_name=${encodeURIComponent(name)}\n`);
    const key = (await readSecret("Paste your API key: ", signal)).trim();
    if (key === "") throw new CliError("The API key must not be empty");
    output.hide(key);
    const known = await describeKey(key, input.text("base-url"), signal).catch((error: unknown) => {
      if (!(error instanceof CliError)) throw error;
      throw new CliError(`Could not validate the API key: ${error.message}`, { cause: error });
    });
    const { id, name: stored, note, details } = known;
    await storeKey(file, id, { type: "manual", key, name: stored, note, details, origin });
    const { user_details: user, org_details: org } = details;
    output.line(
      `Logged in as ${user.email} (${org.name}). Stored API key '${stored}'${at(origin) || " as the default credential"}.`,
    );
  },
};

export const authLogout: Command = {
  usage: "auth logout",
  about:
    "Forgets the stored key. The key itself stays active until it is deleted on the service's page; one that an older tool made for\n" +
    "this machine alone is deleted on the server, too.",
  async run(input, { output, signal }) {
    const file = credentialsFile();
    const origin = originOf(input);
    const stored = keyFor(origin, readCredentials(file));
    if (stored === undefined) {
      throw new CliError(`No default credential is stored${at(origin)}`, {
        hint: "There is nothing to log out from. Run npx tinklet auth login to log in.",
      });
    }
    const { id, record } = stored;
    const organization = record.details?.org_details.name ?? "unknown (not stored with this credential)";
    const where = `API key organization: ${organization}${origin === hostedOrigin ? `\nDelete api key here: ${pageOfKey(id)}` : ""}`;
    if (record.type !== "generated") {
      await forgetKey(file, id);
      output.line(`Removed credential '${record.name}'. The API key is still active.\n${where}`);
      return;
    }
    output.hide(record.key);
    let failure: CliError | undefined;
    try {
      await deleteKey(record.key, input.text("base-url"), signal);
    } catch (error) {
      if (!(error instanceof CliError)) throw error;
      failure = error;
    }
    await forgetKey(file, id);
    if (failure !== undefined) {
      throw new CliError(
        `Could not delete the API key on the server: ${failure.message}\nRemoved the local credential.\n` +
          `API key name: ${record.name}\nAPI key ID: ${id}\n${where}`,
      );
    }
    output.line(`Removed credential '${record.name}' and deleted its API key on the server.`);
  },
};

export const authStatus: Command = {
  usage: "auth status",
  about: "Says whether there is a credential, and whether the server takes it.",
  async run(input, context) {
    const { output, signal } = context;
    const apiKey = input.text("api-key");
    const problem = context.isLocal ? undefined : await credentialProblem({ apiKey, baseUrl: input.text("base-url") });
    const has = problem === undefined;
    if (!output.isJson) output.line(`Credentials available: ${has ? "yes" : "no"}`);
    if (!has) {
      if (output.isJson) output.result({ json: { credentials: false, accessible: false }, columns: [], rows: [] });
      if (problem.code === "key_of_another_server") throw problem;
      throw new CliError("No Tinker credentials are available", {
        hint: "Run npx tinklet auth login, or set TINKER_API_KEY.",
      });
    }
    let accessible = false;
    try {
      await (await context.service()).getServerCapabilities({ signal, maxRetries: 0 });
      accessible = true;
    } finally {
      if (output.isJson) output.result({ json: { credentials: true, accessible }, columns: [], rows: [] });
      else output.line(`Tinker accessible: ${accessible ? "yes" : "no"}`);
    }
  },
};

/** Why the SDK would find no credential, if so; a command counts as one without being run. */
async function credentialProblem(options: Parameters<typeof credentialSource>[0]): Promise<TinkerError | undefined> {
  const source = credentialSource(options);
  try {
    const credentials = firstCredentials(source);
    if (source.command === undefined) await credentials.token(); // reads a stored key
    return undefined;
  } catch (error) {
    if (error instanceof TinkerError) return error;
    throw error;
  }
}

export const authWhoami: Command = {
  usage: "auth whoami",
  about: "Shows the user and the organization of the credential. Only servers that exchange keys for tokens can tell.",
  async run(_input, context) {
    const rest = (await context.service()).createRestClient();
    const who = await rest.whoami({ signal: context.signal });
    context.output.result({
      columns: ["Property", "Value"],
      rows: [
        ["Email", who.email ?? "N/A"],
        ["User", who.userUrn],
        ["Organization", who.orgUrn ?? "N/A"],
      ],
      json: whoamiJson(who),
    });
  },
};

const whoamiJson = ({ userUrn, orgUrn, email }: WhoamiResponse) => ({
  user_urn: userUrn,
  org_urn: orgUrn ?? null,
  email: email ?? null,
});
