// Adds to package-lock.json the optional packages for other platforms that the registry in use does not serve: npm leaves
// them out of a lock file it writes there, and `npm ci` then calls the lock file incomplete. Every entry without a checksum is
// then asked for at the registry; those it cannot tell are listed. Run after `npm install`.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const file = new URL("../package-lock.json", import.meta.url);
const lock = JSON.parse(readFileSync(file, "utf8"));
const systems = ["android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "sunos", "win32", "aix"];
const processors = {
  arm64: "arm64",
  x64: "x64",
  ia32: "ia32",
  arm: "arm",
  ppc64: "ppc64",
  riscv64: "riscv64",
  s390x: "s390x",
  loong64: "loong64",
  mips64el: "mips64el",
  wasm32: "wasm32",
};

let added = 0;
for (const [path, entry] of Object.entries(lock.packages)) {
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (!/^\d/.test(version)) continue;
    // where Node would look for it, from the inside out; the outermost place that is free or holds this version will do
    const places = [`${path}/node_modules/${name}`];
    for (let at = path; at.includes("node_modules/"); ) {
      at = at.slice(0, at.lastIndexOf("node_modules/"));
      places.push(`${at}node_modules/${name}`);
    }
    if (!path.includes("node_modules/")) places.push(`node_modules/${name}`); // a workspace looks in the root's folder
    if (places.some((place) => lock.packages[place]?.version === version)) continue;
    const taken = places.findIndex((place) => place in lock.packages);
    const hoisted = places[taken === -1 ? places.length - 1 : Math.max(taken - 1, 0)];
    const words = name.split(/[/-]/);
    const os = words.find((word) => systems.includes(word)) ?? (words.includes("wasm32") ? undefined : "none");
    const cpu = words.map((word) => processors[word]).find(Boolean);
    lock.packages[hoisted] = {
      version,
      ...(cpu === undefined ? {} : { cpu: [cpu] }),
      ...(entry.dev ? { dev: true } : {}),
      optional: true,
      ...(os === undefined || os === "none" ? {} : { os: [os] }),
    };
    added++;
  }
}

/** The registry's checksum of one version, or undefined where the registry does not have it. */
const checksum = (name, version) =>
  new Promise((resolve) => {
    execFile(
      "npm",
      ["view", `${name}@${version}`, "dist.integrity"],
      { shell: process.platform === "win32" },
      (_, out) => resolve(/^sha512-\S+/.exec(out)?.[0]),
    );
  });
const missing = [];
for (const [path, entry] of Object.entries(lock.packages)) {
  if (!path.includes("node_modules/") || entry.link || entry.integrity !== undefined) continue;
  const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
  const integrity = await checksum(name, entry.version);
  if (integrity === undefined) missing.push(`${name}@${entry.version}`);
  else entry.integrity = integrity;
}

const sorted = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
writeFileSync(file, `${JSON.stringify({ ...lock, packages: sorted }, null, 2)}\n`);
console.log(`${added} packages of other platforms added`);
if (missing.length > 0) console.log(`${missing.length} without a checksum here:\n  ${missing.join("\n  ")}`);
