// What must hold before a release, as plain functions of manifests and the changelog: versions in step, an entry in the changelog, an
// order in which nothing is published before what it needs, and what provenance asks for.

const asks = {
  dependencies: "asks for",
  optionalDependencies: "asks for",
  peerDependencies: "asks for",
  devDependencies: "is developed with",
};

/** Every way in which the packages' versions are not in step, in words; none is right. */
export function versionProblems(manifests) {
  const names = new Set(manifests.map(({ name }) => name));
  const { version } = manifests[0];
  return manifests.flatMap((manifest) => [
    ...(manifest.version === version
      ? []
      : [`${manifest.name} is ${manifest.version}, ${manifests[0].name} ${version}`]),
    ...Object.entries(asks).flatMap(([kind, words]) =>
      Object.entries(manifest[kind] ?? {})
        .filter(([name, range]) => names.has(name) && range !== version)
        .map(([name, range]) => `${manifest.name} ${words} ${name} ${range}, not ${version}`),
    ),
  ]);
}

/** The changelog's entry of a version: its date, or undefined while it says "unreleased", and its text. */
export function changelogEntry(changelog, version) {
  const sections = changelog.split(/^(?=## )/m).slice(1);
  const section = sections.find((text) => text.startsWith(`## ${version} `));
  if (section === undefined) throw new Error(`CHANGELOG.md has no entry "## ${version} (date)"`);
  const [heading, ...rest] = section.split("\n");
  const when = /\(([^)]*)\)\s*$/.exec(heading)?.[1];
  if (when !== "unreleased" && !/^\d{4}-\d{2}-\d{2}$/.test(when ?? ""))
    throw new Error(`CHANGELOG.md: "${heading}" must end with (unreleased) or with a date, (2026-01-31)`);
  const text = rest.join("\n").trim();
  if (text === "") throw new Error(`CHANGELOG.md: the entry of ${version} is empty`);
  return { date: when === "unreleased" ? undefined : when, text };
}

/** The packages so that each comes after those of ours that it depends on; optional peers may come later. */
export function publishOrder(manifests) {
  const byName = new Map(manifests.map((manifest) => [manifest.name, manifest]));
  const order = [];
  const visiting = new Set();
  const visit = (manifest) => {
    if (order.includes(manifest)) return;
    if (visiting.has(manifest)) throw new Error(`${manifest.name} depends on itself by way of others`);
    visiting.add(manifest);
    for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }))
      if (byName.has(name)) visit(byName.get(name));
    order.push(manifest);
  };
  for (const manifest of manifests) visit(manifest);
  return order;
}

/** What npm's provenance needs of the manifests, in words; none is right. */
export function provenanceProblems(manifests) {
  return manifests.flatMap(({ name, private: isPrivate, publishConfig }) => [
    ...(isPrivate ? [`${name} is private`] : []),
    ...(publishConfig?.provenance === true && publishConfig.access === "public"
      ? []
      : [`${name} lacks publishConfig { "access": "public", "provenance": true }`]),
  ]);
}

/** Constants in the sources that repeat a version, by path: { "packages/x/src/y.ts": "text" }. Each must be the manifests' own. */
export function constantProblems(sources, version) {
  return Object.entries(sources).flatMap(([path, text]) =>
    [...text.matchAll(/\b(\w*[vV]ersion) = "(\d+\.\d+\.\d+)"/g)]
      // the official SDK whose wire is mirrored has a version of its own
      .filter(([, name, found]) => name !== "mirroredSdkVersion" && found !== version)
      .map(([, name, found]) => `${path}: ${name} is ${found}, not ${version}`),
  );
}
