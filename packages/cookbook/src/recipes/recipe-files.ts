/** The recipes of this package as files: which there are, their text to copy, and loading one by its name or from a user's file. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { InvalidInputError } from "@tinklet/sdk";
import { closest } from "@tinklet/wire/options";
import type { Recipe } from "./recipe.ts";

/** The package's folder, whether this runs from its sources or its build. */
function packageFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, "package.json")) || !existsSync(join(folder, "recipes"))) {
    const above = dirname(folder);
    if (above === folder) throw new Error("the recipes of @tinklet/cookbook are not there: install the package again");
    folder = above;
  }
  return folder;
}

/** Names of the recipes, in order. */
export async function recipeNames(): Promise<string[]> {
  const files = await readdir(join(packageFolder(), "recipes"));
  return files
    .filter((file) => file.endsWith(".ts"))
    .map((file) => file.slice(0, -3))
    .sort();
}

/** The text of a recipe: TypeScript, or JavaScript as it is run. */
export async function recipeText(name: string, language: "ts" | "js" = "ts"): Promise<string> {
  await checkName(name);
  if (language === "ts") return readFile(join(packageFolder(), "recipes", `${name}.ts`), "utf8");
  return readFile(join(packageFolder(), "dist", "recipes", `${name}.js`), "utf8");
}

/**
 * Loads a recipe by its name, or from a file.
 *
 * @param nameOrFile - a name, or a path with a slash or an ending.
 * @throws InvalidInputError when there is none, or this Node cannot run TypeScript.
 */
export async function loadRecipe(nameOrFile: string): Promise<Recipe> {
  if (/[/\\.]/.test(nameOrFile)) return loadFile(resolve(nameOrFile));
  await checkName(nameOrFile);
  const folder = packageFolder();
  const built = join(folder, "dist", "recipes", `${nameOrFile}.js`);
  const isBuild = fileURLToPath(import.meta.url).startsWith(join(folder, "dist"));
  const path = isBuild ? built : join(folder, "recipes", `${nameOrFile}.ts`);
  return ((await import(pathToFileURL(path).href)) as { default: Recipe }).default;
}

async function loadFile(path: string): Promise<Recipe> {
  if (!existsSync(path)) throw new InvalidInputError("recipe", `there is no file ${path}`);
  try {
    return ((await import(pathToFileURL(path).href)) as { default: Recipe }).default;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ERR_UNKNOWN_FILE_EXTENSION") throw cause;
    throw new InvalidInputError("recipe", `${path} is TypeScript, which Node ${process.version} does not run`, {
      hint: "Use Node 22.18 or later, or copy the recipe as JavaScript: npx tinklet recipe copy NAME mine.mjs",
    });
  }
}

function suggestion(name: string, names: readonly string[]): string {
  const close = closest(name, names);
  return close === undefined ? "" : `. Did you mean ${close}?`;
}

async function checkName(name: string): Promise<void> {
  const names = await recipeNames();
  if (!names.includes(name))
    throw new InvalidInputError(
      "recipe",
      `must be the name of a recipe, not ${JSON.stringify(name)}${suggestion(name, names)}`,
      {
        hint: `The recipes are: ${names.join(", ")}. For a file of your own give its path, such as ./mine.mjs.`,
      },
    );
}
