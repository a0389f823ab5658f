import { readFileSync } from "node:fs";
import { afterEach, expect, it, vi } from "vitest";
import { clientHeaders, environment, isNode, packageVersion, platformName, rawEnvironment } from "./environment.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

it("an empty variable counts as unset, except where it is asked for as it is", () => {
  vi.stubEnv("TINKER_BASE_URL", "");
  expect([environment("TINKER_BASE_URL"), rawEnvironment("TINKER_BASE_URL")]).toEqual([undefined, ""]);
  vi.stubEnv("TINKER_BASE_URL", "x");
  expect(environment("TINKER_BASE_URL")).toBe("x");
  expect(environment("TINKER_NO_SUCH_THING")).toBeUndefined();
});

it("M-906: the version is the package's own", () => {
  const manifest = JSON.parse(readFileSync(new URL("../../../tinklet/package.json", import.meta.url), "utf8")) as {
    version: string;
  };
  expect(packageVersion).toBe(manifest.version);
});

const host = (fields: object) => vi.stubGlobal("process", { versions: { node: "20.0.0" }, ...fields });

it("names system, machine and runtime as the official client does", () => {
  host({ platform: "darwin", arch: "arm64", version: "v20.1.2" });
  expect(clientHeaders()).toMatchObject({
    "x-stainless-os": "MacOS",
    "x-stainless-arch": "arm64",
    "x-stainless-runtime": "node",
    "x-stainless-runtime-version": "20.1.2",
  });
  expect(platformName()).toBe("Darwin");
  host({ platform: "win32", arch: "ia32" });
  expect(clientHeaders()).toMatchObject({ "x-stainless-os": "Windows", "x-stainless-arch": "x32" });
  expect(platformName()).toBe("Windows");
  host({ platform: "sunos", arch: "mips" });
  expect(clientHeaders()).toMatchObject({ "x-stainless-os": "Other:sunos", "x-stainless-arch": "other:mips" });
  expect(platformName()).toBe("sunos");
});

it("works where there is no process", () => {
  vi.stubGlobal("process", undefined);
  expect(isNode()).toBe(false);
  expect(environment("HOME")).toBeUndefined();
  expect(platformName()).toBe("Unknown");
  expect(clientHeaders()).toMatchObject({
    "x-stainless-os": "Unknown",
    "x-stainless-arch": "unknown",
    "x-stainless-runtime": "browser",
  });
});

it("takes Bun and Deno for what they are", () => {
  host({ versions: { node: "20.0.0", bun: "1.2.3" } });
  expect([isNode(), clientHeaders()["x-stainless-runtime"], clientHeaders()["x-stainless-runtime-version"]]).toEqual([
    false,
    "bun",
    "1.2.3",
  ]);
  host({});
  expect(isNode()).toBe(true);
  vi.stubGlobal("Deno", {});
  expect([isNode(), clientHeaders()["x-stainless-runtime"]]).toEqual([false, "deno"]);
});
