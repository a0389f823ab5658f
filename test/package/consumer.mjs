// A project that uses the packed packages compiles: declarations are checked (`skipLibCheck: false`), with the SDK alone and with
// everything installed, under every TypeScript and module resolution that we promise; a strict project that names its libraries and Node's
// types, and a newcomer's that names neither.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { tarballsOf } from "../../tools/pack.mjs";
import { emptyProject, run, tools } from "./report.mjs";

const compilers = { "typescript-5.9": "typescript@5.9.3", "typescript-6": "typescript@6.0.3" };
const modules = {
  nodenext: { module: "nodenext", moduleResolution: "nodenext" },
  bundler: { module: "esnext", moduleResolution: "bundler" },
};
const strict = {
  target: "es2022",
  lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable", "esnext.disposable"],
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  noPropertyAccessFromIndexSignature: true,
  skipLibCheck: false,
  noEmit: true,
  types: ["node"],
};
/** What `tsc --init` amounts to: no `lib`, no types of Node. */
const plain = { target: "es2022", strict: true, skipLibCheck: false, noEmit: true, types: [] };

/** @param name - of the package with the SDK. @param wire - of the entry with the wire */
const sdkProgram = (name, wire) => `import { Datum, ModelInput, ServiceClient } from "${name}";
import { contract } from "${wire}";
import { StubServer } from "${name}/testing";

export async function main(): Promise<number | undefined> {
  const service = await ServiceClient.connect({ apiKey: "tml-x" });
  const trainer = await service.createLoraTrainingClient({ baseModel: "tinklet/base", rank: 8 });
  const datum = new Datum({ modelInput: ModelInput.fromInts([1, 2]), lossFnInputs: { target_tokens: [2, 3] } });
  const { loss } = await trainer.step([datum], "cross_entropy", { learningRate: 1e-4 });
  const sampler = await trainer.saveWeightsAndGetSamplingClient();
  const { sequences } = await sampler.sample(ModelInput.fromInts([1]), { samplingParams: { maxTokens: 4 } });
  const tokens: readonly number[] | undefined = sequences[0]?.tokens && [...sequences[0].tokens];
  await service.close();
  return loss === undefined ? tokens?.length : Object.keys(contract).length + (new StubServer() === undefined ? 1 : 0);
}
`;

/** Every code entry of the packages, imported whole: a declaration that cannot be resolved stops the compiler. */
const everyEntry = (packages) =>
  [...packages]
    .flatMap(([name, { manifest }]) =>
      Object.keys(manifest.exports)
        .filter((key) => typeof manifest.exports[key] === "object" && !key.includes("*"))
        .map((key) => `${name}${key.slice(1)}`),
    )
    .map((entry, index) => `export * as entry${index} from "${entry}";\n`)
    .join("");

export async function checkConsumer({ check }, packages, work) {
  const found = {};
  const ready = await check("consumer: the compilers are installed", async () => {
    Object.assign(found, await tools({ ...compilers, "@types/node": "@types/node@20.19.43" }));
  });
  if (!ready) return;
  const projects = [
    {
      name: "@tinklet/sdk alone",
      install: tarballsOf(packages, "@tinklet/sdk"),
      program: sdkProgram("@tinklet/sdk", "@tinklet/wire"),
      settings: { strict, plain },
    },
    {
      name: "every package with its optional peers",
      install: [
        ...[...packages.values()].map((packed) => packed.tarball),
        ...externalPeers(packages.get("@tinklet/sdk").manifest),
      ],
      program: sdkProgram("tinklet", "tinklet/wire") + everyEntry(packages),
      settings: { strict },
    },
  ];
  for (const [index, { name, install, program, settings }] of projects.entries()) {
    const folder = emptyProject(join(work, `consumer-${index}`));
    const types = `@types/node@file:${found["@types/node"]}`;
    const installed = await check(`consumer: installs ${name}`, async () => {
      await run(
        "npm",
        ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--install-links", ...install, types],
        {
          cwd: folder,
        },
      );
    });
    if (!installed) continue;
    writeFileSync(join(folder, "program.ts"), program);
    for (const [setting, base] of Object.entries(settings))
      for (const compiler of Object.keys(compilers))
        for (const [kind, options] of Object.entries(modules))
          await check(`consumer: ${name}, ${setting}, ${compiler}, ${kind}`, async () => {
            const config = join(folder, `tsconfig.${setting}.${kind}.json`);
            writeFileSync(config, JSON.stringify({ compilerOptions: { ...base, ...options }, files: ["program.ts"] }));
            await run(process.execPath, [join(found[compiler], "bin/tsc"), "-p", config], { cwd: folder });
          });
  }
}

/** Peers that are not packages of ours, at the versions that the manifest asks for. */
const externalPeers = ({ peerDependencies = {} }) =>
  Object.entries(peerDependencies)
    .filter(([name]) => !name.startsWith("@tinklet/"))
    .map(([name, range]) => `${name}@${range}`);
