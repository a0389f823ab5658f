/**
 * Runs the cases against a server, each with its own deadline and context. Cases run sequentially, so that a failure is caused by the case
 * and not by concurrent load. Errors of the server become failed cases.
 */
import { type FetchLike, ServiceClient } from "@tinklet/sdk";
import type { Case, Group } from "./case.ts";
import { Failed, NotOffered, show } from "./checks.ts";
import { Context, type Target } from "./context.ts";
import { groups as allGroups } from "./groups/index.ts";
import { Http } from "./http.ts";
import { Measures } from "./measures.ts";
import { type CaseResult, type GroupResult, type Report, releasesOf, totalsOf } from "./report.ts";

export interface ConformanceOptions {
  /** URL of the server. */
  readonly baseUrl: string;
  readonly apiKey: string;
  /** The model to train and sample. @defaultValue the first model that the server offers */
  readonly baseModel?: string | undefined;
  /** Replaces the global `fetch`, for example for a server in the same process. */
  readonly fetch?: FetchLike | undefined;
  /** Run only matching cases: a group (`losses`), a case, or a prefix (`losses/ppo`). @defaultValue all cases */
  readonly only?: readonly string[] | undefined;
  /** Called with the result of each case. */
  readonly onCase?: ((result: CaseResult) => void) | undefined;
  /** Restarts the server with the same data and resolves once it responds. Without it the restart cases are skipped. */
  readonly restart?: (() => Promise<void>) | undefined;
  /** Time limit of one case in milliseconds. @defaultValue 120000 */
  readonly deadlineMs?: number | undefined;
  /** Aborts the run; its results so far are discarded. */
  readonly signal?: AbortSignal | undefined;
}

/** The kit's version in reports. */
export const conformanceVersion = "0.1.0";

/**
 * Tests a server of the Tinker API through its public interface.
 *
 * @throws {@link TinkerError} if the server cannot be reached; Error if it offers no model.
 *
 * @example
 * ```ts
 * const report = await runConformance({ baseUrl: "http://localhost:8000", apiKey: "tml-local" });
 * console.log(formatReport(report));
 * process.exitCode = report.passed ? 0 : 1;
 * ```
 */
export async function runConformance(options: ConformanceOptions): Promise<Report> {
  const started = new Date();
  const target = await reach(options);
  const measures = new Measures();
  const results: GroupResult[] = [];
  for (const { name, title, cases } of selectCases(allGroups, options.only)) {
    const done: CaseResult[] = [];
    for (const item of cases) {
      options.signal?.throwIfAborted();
      const result = await runCase(item, target, measures, options);
      done.push(result);
      options.onCase?.(result);
    }
    results.push({ name, title, cases: done });
  }
  const totals = totalsOf(results);
  return {
    tool: "tinklet-conformance",
    version: conformanceVersion,
    date: started.toISOString(),
    baseUrl: target.baseUrl,
    baseModel: target.baseModel,
    passed: totals.fail === 0,
    totals,
    releases: releasesOf(results),
    ms: Date.now() - started.getTime(),
    groups: results,
  };
}

/** The cases that match `only`. */
export function selectCases(groups: readonly Group[], only: readonly string[] | undefined): readonly Group[] {
  if (only === undefined || only.length === 0) return groups;
  const ids = new Set(groups.flatMap(({ cases }) => cases.map(({ id }) => id)));
  const matches = (id: string) => (name: string) =>
    ids.has(name) ? id === name : id.startsWith(name.includes("/") ? name : `${name}/`);
  const isSelected = ({ id }: Case) => only.some(matches(id));
  return groups
    .map((group) => ({ ...group, cases: group.cases.filter(isSelected) }))
    .filter(({ cases }) => cases.length > 0);
}

/** Connects to the server and determines the model and the credential. */
async function reach(options: ConformanceOptions): Promise<Target> {
  const { baseUrl, apiKey, restart } = options;
  const send: FetchLike = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
  const service = await ServiceClient.connect({ baseUrl, apiKey, fetch: send, telemetry: false, logLevel: "off" });
  try {
    const { supportedModels } = await service.getServerCapabilities();
    const baseModel = options.baseModel ?? supportedModels.find(({ modelName }) => modelName !== undefined)?.modelName;
    if (baseModel === undefined) throw new Error(`${baseUrl} offers no model; set baseModel`);
    const contextLength = supportedModels.find(({ modelName }) => modelName === baseModel)?.maxContextLength;
    const credential = await rawCredential({ baseUrl, apiKey, fetch: send });
    return { baseUrl, apiKey, baseModel, contextLength, credential, fetch: send, restart };
  } finally {
    await service.close();
  }
}

/** The API key, or the token for which it is exchanged if the server uses tokens. */
async function rawCredential(connection: { baseUrl: string; apiKey: string; fetch: FetchLike }): Promise<string> {
  const http = new Http({ ...connection, credential: connection.apiKey, signal: AbortSignal.timeout(30_000) });
  const config = await http.post("client/config", { sdk_version: "0.25.0" });
  if (config.json?.pjwt_auth_enabled !== true) return connection.apiKey;
  const token = await http.post("auth/token", {});
  return typeof token.json?.jwt === "string" ? token.json.jwt : connection.apiKey;
}

async function runCase(
  item: Case,
  target: Target,
  measures: Measures,
  options: ConformanceOptions,
): Promise<CaseResult> {
  const { id, reason, official, since } = item;
  const facts = { id, reason, official, since };
  if (item.needsRestart === true && target.restart === undefined) {
    return { ...facts, status: "skipped", message: "the restart option is not set", ms: 0 };
  }
  const deadlineMs = options.deadlineMs ?? 120_000;
  const deadline = new AbortController();
  const late = new Failed("the case", `to finish within ${deadlineMs / 1000} s`, "still running");
  const timer = setTimeout(() => deadline.abort(late), deadlineMs);
  const context = new Context(target, deadline.signal, measures);
  const started = performance.now();
  const spent = () => Math.round(performance.now() - started);
  try {
    await Promise.race([item.run(context), aborted(deadline.signal)]);
    return { ...facts, status: "pass", ms: spent() };
  } catch (error) {
    return { ...facts, ...failureOf(error), ms: spent() };
  } finally {
    clearTimeout(timer);
    await context.close();
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true }),
  );
}

function failureOf(error: unknown): Pick<CaseResult, "status" | "message" | "expected" | "seen"> {
  if (error instanceof NotOffered) return { status: "not offered", message: error.message };
  if (error instanceof Failed) {
    return { status: "fail", message: error.message, expected: error.expected, seen: error.seen };
  }
  const named = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { status: "fail", message: "an operation failed", expected: "success", seen: show(named) };
}
