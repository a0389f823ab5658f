/** Where `sdk.mjs` has installed things: the file that `import` of a name leads to in that folder. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { env } from "node:process";

const folder = (): string => {
  const { AI_SDK_FOLDER } = env;
  if (AI_SDK_FOLDER === undefined) throw new Error("AI_SDK_FOLDER is not set; run npm run test:interop -- ai");
  return AI_SDK_FOLDER;
};

/** The AI SDK of this round: `ai6` or `ai7`. */
export const sdkName = (): string => env["AI_SDK"] ?? "ai6";

export const manifestOf = (name: string) => {
  const path = join(folder(), "node_modules", name, "package.json");
  return JSON.parse(readFileSync(path, "utf8")) as {
    readonly version: string;
    readonly exports: Readonly<Record<string, { readonly import?: string; readonly default?: string }>>;
  };
};

export function installed(specifier: string): string {
  const parts = specifier.split("/");
  const cut = specifier.startsWith("@") ? 2 : 1;
  const name = specifier === "ai" ? sdkName() : parts.slice(0, cut).join("/");
  const entry = manifestOf(name).exports[[".", ...parts.slice(cut)].join("/")];
  const file = entry?.import ?? entry?.default;
  if (file === undefined) throw new Error(`${name} does not export ${specifier}`);
  return join(folder(), "node_modules", name, file);
}
