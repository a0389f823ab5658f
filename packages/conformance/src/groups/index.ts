/** All groups in execution order: later groups depend on features tested by earlier ones. */
import type { Group } from "../case.ts";
import { checkpoints } from "./checkpoints.ts";
import { encoding } from "./encoding.ts";
import { errors } from "./errors.ts";
import { futures } from "./futures.ts";
import { idempotency } from "./idempotency.ts";
import { lora } from "./lora.ts";
import { losses } from "./losses.ts";
import { newer } from "./newer.ts";
import { newerSampling } from "./newer-sampling.ts";
import { optimizer } from "./optimizer.ts";
import { ordering } from "./ordering.ts";
import { restart } from "./restart.ts";
import { routes } from "./routes.ts";
import { sampling } from "./sampling.ts";
import { sessions } from "./sessions.ts";

export const groups: readonly Group[] = [
  routes,
  encoding,
  sessions,
  ordering,
  idempotency,
  futures,
  losses,
  optimizer,
  lora,
  checkpoints,
  sampling,
  errors,
  newer,
  newerSampling,
  restart,
];
