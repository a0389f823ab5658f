/** Builds the page into dist/page: one script, one style sheet, the document and its icon, with no resources from other hosts. */
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** @param folder - the output folder. @defaultValue dist/page of the package */
export async function buildPage(folder: string = at("dist/page")): Promise<void> {
  await mkdir(folder, { recursive: true });
  await build({
    entryPoints: [at("src/page/main.tsx")],
    outfile: join(folder, "page.js"),
    bundle: true,
    minify: true,
    format: "esm",
    platform: "browser",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
  });
  const styles = [at("../../node_modules/uplot/dist/uPlot.min.css"), at("src/page/page.css")];
  const css = (await Promise.all(styles.map((file) => readFile(file, "utf8")))).join("\n");
  await writeFile(join(folder, "page.css"), css);
  for (const name of ["index.html", "icon.svg"]) await copyFile(at(`src/page/${name}`), join(folder, name));
}
