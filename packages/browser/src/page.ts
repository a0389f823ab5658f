/** The state of a browser server, which its handlers share, and lookups that fail with the API's errors. */
import { Refusal } from "@tinklet/server/portable";
import type { Clock } from "@tinklet/wire/clock";
import type { Checkpoints } from "./checkpoints.ts";
import type { EngineHost } from "./engine-host.ts";
import type { Requests } from "./requests.ts";
import type { Snapshots } from "./snapshots.ts";
import type { BrowserStorage } from "./storage/storage.ts";
import type { Submission, TrainingModel } from "./training-model.ts";

export interface PageSession {
  readonly id: string;
  finished: boolean;
}

/** A sampling session: a base model, with the stored weights under `stateKey` if it has any. */
export interface PageSampler {
  readonly id: string;
  readonly sessionId: string;
  readonly baseModel: string;
  readonly modelPath: string | undefined;
  readonly stateKey: string | undefined;
  /** Whether the weights are deleted with the page's session. */
  readonly isTransient: boolean;
  /** The samples of this session by `seq_id`: a retry gets the same request. */
  readonly samples: Map<number | bigint, Submission>;
}

export interface PageState {
  readonly hosts: ReadonlyMap<string, EngineHost>;
  readonly storage: BrowserStorage;
  readonly checkpoints: Checkpoints;
  readonly snapshots: Snapshots;
  readonly requests: Requests;
  readonly clock: Clock;
  readonly sessions: Map<string, PageSession>;
  readonly models: Map<string, TrainingModel>;
  readonly samplers: Map<string, PageSampler>;
}

const missing = (what: string, id: string): Refusal =>
  new Refusal(404, `unknown_${what}`, `There is no ${what} ${JSON.stringify(id.slice(0, 200))} in this page.`);

/** A session that accepts requests. @throws {@link Refusal} 404, 410 */
export function openSession({ sessions }: PageState, id: string): PageSession {
  const session = sessions.get(id);
  if (session === undefined) throw missing("session", id);
  if (session.finished)
    throw new Refusal(410, "session_finished", `The session ${JSON.stringify(id)} was finished by its client.`);
  return session;
}

/** A model that is trained in this load of the page. @throws {@link Refusal} 404 */
export function liveModel(page: PageState, id: string): TrainingModel {
  const model = page.models.get(id);
  if (model === undefined) throw missing("model", id);
  openSession(page, model.sessionId);
  return model;
}

/** @throws {@link Refusal} 404 */
export function samplerOf({ samplers }: PageState, id: string): PageSampler {
  const sampler = samplers.get(id);
  if (sampler === undefined) throw missing("sampler", id);
  return sampler;
}

/** @throws {@link Refusal} 400 */
export function hostOf({ hosts }: PageState, baseModel: string): EngineHost {
  const host = hosts.get(baseModel);
  if (host !== undefined) return host;
  const served = [...hosts.keys()].map((name) => JSON.stringify(name)).join(", ");
  const message = `base_model: ${JSON.stringify(baseModel.slice(0, 200))} is not served here; this page has ${served}`;
  throw new Refusal(400, "unknown_base_model", message);
}
