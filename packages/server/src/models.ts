/**
 * Resolves the base models to serve from their names on the command line: a folder, a file, a Hub id, or `name=` one of these; without any
 * name, the bundled model. The name in the API is the text as given, or the part before `=`.
 */
import { existsSync, realpathSync } from "node:fs";
import { stat } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { defaultMemoryBudget, type EngineOptions, openEngine } from "@tinklet/engine";
import { bundledModel, bundledModelFolder, loadTokenizerFiles } from "@tinklet/models";
import { omitUndefined } from "@tinklet/wire/options";
import type { RecordedModel } from "@tinklet/wire/running-server";
import type { ModelSource } from "./server.ts";

/** Options of {@link resolveModels}. */
export interface ResolveOptions {
  /** Options of every engine; the memory budget is divided evenly among them. */
  readonly engine?: EngineOptions;
}

/**
 * Finds the base models to serve.
 *
 * @param names - folders, `.gguf` files, Hub ids, or `name=` one of these; empty means the bundled model.
 * @throws WeightsError when the bundled model is needed and not installed; Error when a name is given twice.
 */
export async function resolveModels(names: readonly string[], options: ResolveOptions = {}): Promise<ModelSource[]> {
  const wanted = names.length === 0 ? [bundledModel] : names;
  const engine = optionsPerEngine(options.engine, wanted.length);
  const sources: ModelSource[] = [];
  for (const text of wanted) {
    const { name, source } = parse(text);
    if (sources.some((other) => other.name === name)) throw new Error(`The model name ${name} is given twice.`);
    const tokenizerId = await tokenizerFolder(source);
    sources.push({
      name,
      open: () => openEngine(source, engine),
      tokenizerFiles: remembered(() =>
        loadTokenizerFiles(source, { cacheDir: engine.cacheDir, offline: engine.offline }),
      ),
      ...omitUndefined({ tokenizerId }),
    });
  }
  return sources;
}

/** Loads once and caches the result; after a failure the next call loads again. */
function remembered<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return () => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
}

/** The options of each of `count` engines, with an equal part of the memory budget: by default an engine uses the whole budget. */
export function optionsPerEngine(engine: EngineOptions = {}, count: number): EngineOptions {
  const isOnHost = engine.device === undefined || engine.device === "cpu";
  if (!isOnHost && count === 1) return engine; // a device has a default of its own
  const budget = engine.memoryBudgetBytes ?? defaultMemoryBudget();
  return { ...engine, memoryBudgetBytes: Math.floor(budget / count) };
}

/** Names and sources of the models for the record of a running server; paths are resolved, so that spellings of one folder are equal. */
export const recordedModels = (names: readonly string[]): RecordedModel[] =>
  (names.length === 0 ? [bundledModel] : names).map(parse).map(({ name, source }) => ({
    name,
    source: existsSync(source) ? realpathSync(source) : source,
  }));

function parse(text: string): { name: string; source: string } {
  const equals = text.indexOf("=");
  // a path may contain "=": the text is split only if it is not a path
  if (equals > 0 && !existsSync(text)) return { name: text.slice(0, equals), source: text.slice(equals + 1) };
  return { name: text, source: text === bundledModel ? bundledModelFolder() : text };
}

/** Where the Python client finds the tokenizer: the model's folder, or the Hub id unchanged. */
async function tokenizerFolder(source: string): Promise<string | undefined> {
  const found = await stat(source).catch(() => undefined);
  if (found === undefined) return source; // a Hub id
  const folder = found.isDirectory() ? source : dirname(source);
  return existsSync(join(folder, "tokenizer.json")) ? resolve(folder) : undefined;
}
