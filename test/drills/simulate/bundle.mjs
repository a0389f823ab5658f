// Bundles the simulator with the real SDK and the real server. The server's disk, database driver and side threads are replaced by the
// simulator's, and a planted defect, where one is asked for, is a replacement of source text.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { bundleInto } from "../../fixtures/programs/bundle.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));

const replaced = new Map([
  ["node:fs", "disk-fs.ts"],
  ["node:fs/promises", "disk-fs-promises.ts"],
  ["libsql", "disk-libsql.ts"],
]);

const disk = {
  name: "simulated-disk",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^(node:fs(\/promises)?|libsql)$/ }, ({ path, importer }) =>
      importer.includes("/packages/server/src/") ? { path: join(here, replaced.get(path)) } : undefined,
    );
    onLoad({ filter: /packages\/server\/src\/thread\/side-thread\.ts$/ }, ({ path }) => ({
      loader: "ts",
      contents: readFileSync(path, "utf8").replace(
        'import { startThread } from "@tinklet/engine";',
        `import { startThread } from ${JSON.stringify(join(here, "side-thread.ts"))};`,
      ),
    }));
  },
};

/** Replaces what a defect of `defects.mjs` names. @throws when the bundle ends without its file, so that none is searched for in vain */
const planted = (defect) => ({
  name: "planted-defect",
  setup({ onLoad, onEnd }) {
    let isPlanted = false;
    onLoad({ filter: new RegExp(`${defect.file.replaceAll(/[.\\/]/g, "\\$&")}$`) }, ({ path }) => {
      isPlanted = true;
      const source = readFileSync(path, "utf8");
      const contents = (defect.edits ?? [defect]).reduce((text, { find, replace }) => {
        if (text.split(find).length !== 2) throw new Error(`${defect.name}: its text is not once in ${defect.file}`);
        return text.replace(find, () => replace);
      }, source);
      return { loader: "ts", contents };
    });
    onEnd(() => {
      if (!isPlanted) throw new Error(`${defect.name}: ${defect.file} is not in the simulator's bundle`);
    });
  },
});

/**
 * @param defect - one of `defects.mjs`
 * @param marks - a plugin that marks branches
 * @returns {Promise<string>} the path of a program that plain Node runs
 */
export const bundleSimulator = (defect, marks) =>
  bundleInto(
    `simulate-${defect?.name ?? (marks === undefined ? "clean" : "branches")}`,
    { main: "test/drills/simulate/simulate-main.ts" },
    [defect && planted(defect), marks, disk].filter((plugin) => plugin !== undefined),
  );
