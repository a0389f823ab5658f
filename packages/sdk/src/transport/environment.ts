/**
 * Environment variables, and the names of runtime and operating system. Uses no `node:` import; in browsers every variable is unset.
 */
import { mirroredSdkVersion } from "@tinklet/wire/client";

interface Host {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly platform?: string;
  readonly arch?: string;
  readonly version?: string;
  readonly versions?: Readonly<Record<string, string | undefined>>;
}

const host = (): Host | undefined => (globalThis as { process?: Host }).process;

/** An environment variable; an empty one counts as unset. */
export function environment(name: string): string | undefined {
  const value = rawEnvironment(name);
  return value === "" ? undefined : value;
}

/** An environment variable, where empty and unset differ. */
export function rawEnvironment(name: string): string | undefined {
  return host()?.env?.[name];
}

/** The hosted service. */
export const hostedBaseUrl = "https://tinker.thinkingmachines.dev/services/tinker-prod";

/** The server's URL: the argument, else `TINKER_BASE_URL`, else the hosted service. */
export function resolveBaseUrl(given?: string): string {
  return given ?? environment("TINKER_BASE_URL") ?? hostedBaseUrl;
}

/** Whether undici's pools can be used. Bun and Deno use their own `fetch` instead. */
export function isNode(): boolean {
  const versions = host()?.versions;
  return versions?.["node"] !== undefined && versions["bun"] === undefined && !("Deno" in globalThis);
}

/** The version of this package. */
export const packageVersion = "0.1.0";

const systems: Readonly<Record<string, string>> = {
  darwin: "MacOS",
  linux: "Linux",
  win32: "Windows",
  freebsd: "FreeBSD",
  openbsd: "OpenBSD",
  android: "Android",
};
const machines: Readonly<Record<string, string>> = { ia32: "x32", x64: "x64", arm: "arm", arm64: "arm64" };

/** The operating system as Python's `platform.system()` names it. */
export function platformName(): string {
  const name = host()?.platform ?? "";
  return name === "darwin" ? "Darwin" : (systems[name] ?? (name || "Unknown"));
}

/** Headers with the client's version, runtime and operating system. */
export function clientHeaders(): Record<string, string> {
  const { platform = "", arch = "", version = "" } = host() ?? {};
  const bun = host()?.versions?.["bun"];
  const runtime = bun !== undefined ? "bun" : "Deno" in globalThis ? "deno" : host() === undefined ? "browser" : "node";
  return {
    "user-agent": `tinklet/${packageVersion}`,
    "x-stainless-package-version": mirroredSdkVersion,
    "x-stainless-os": systems[platform] ?? (platform === "" ? "Unknown" : `Other:${platform}`),
    "x-stainless-arch": machines[arch] ?? (arch === "" ? "unknown" : `other:${arch}`),
    "x-stainless-runtime": runtime,
    "x-stainless-runtime-version": bun ?? version.replace(/^v/, ""),
    "x-stainless-async": "async",
  };
}
