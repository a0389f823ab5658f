/** The routes of the Tinker API: the contract's operations with their handlers, decoding, and the rules of the hosted service. */
import {
  contract,
  type Message,
  matchRoute,
  type Operation,
  protobufContentType,
  type Route,
  unknownFields,
} from "@tinklet/wire";
import { UserError } from "../queue/job.ts";
import { Refusal } from "../queue/refusal.ts";
import { ownModel } from "./access/access.ts";
import { keyCredential } from "./access/auth.ts";
import { hostedCheck } from "./access/hosted-rules.ts";
import { checkOrigin } from "./access/hosts.ts";
import { describeError, jsonAnswer } from "./answers.ts";
import type { Api, Call, Handlers, PassOperation } from "./api.ts";
import type { BodyBounds } from "./body/body.ts";
import { customLossHandlers } from "./handlers/custom-loss.ts";
import { deleteRun } from "./handlers/delete-run.ts";
import { foreignWeightsHandlers } from "./handlers/foreign-weights.ts";
import { futuresHandlers } from "./handlers/futures.ts";
import { progressHandlers } from "./handlers/progress.ts";
import { restHandlers } from "./handlers/rest.ts";
import { folderTokenizers, runFolderHandlers } from "./handlers/run-folders.ts";
import { samplingHandlers } from "./handlers/sampling.ts";
import { serviceHandlers } from "./handlers/service.ts";
import { sessionHandlers } from "./handlers/sessions.ts";
import { traceHandlers } from "./handlers/traces.ts";
import { numberedKinds, peekJson, refuseOtherOptimizers, trainingHandlers } from "./handlers/training.ts";
import { usageHandlers } from "./handlers/usage.ts";
import type { KeyRoute, RouteTableOptions } from "./route-table.ts";

/** Distinct unknown fields that are logged. */
const maxLoggedFields = 1000;

/** The received parameters of an operation. */
interface Received {
  readonly params: Readonly<Record<string, string>>;
  readonly query: object | undefined;
  readonly body: object | undefined;
}

interface Schemas {
  readonly query?: Message<object>;
  readonly body?: Message<object>;
  readonly response?: Message<object>;
}

const schemasOf = (operation: Operation): Schemas => contract[operation] as Schemas;

const isPass = (operation: Operation): operation is PassOperation =>
  operation === "forwardBackward" || operation === "forward";

const contentTypeOf = (request: Request): string => (request.headers.get("content-type") ?? "").toLowerCase();
const isForm = (request: Request): boolean => contentTypeOf(request).startsWith("multipart/");
const isProto = (request: Request): boolean => contentTypeOf(request).includes(protobufContentType);

function checkForm(request: Request): void {
  if (isForm(request)) return;
  const sent = contentTypeOf(request).slice(0, 100) || "none";
  throw new Refusal(415, "unknown_content_type", `Content-Type: must be multipart/form-data, got ${sent}`);
}

type Options = Pick<RouteTableOptions, "api" | "strict" | "studio">;

export function contractRoutes(options: Options): (method: string, path: string) => KeyRoute | undefined {
  const { api } = options;
  const handlers = handlersOf(options);
  const hosted = hostedCheck(options.strict, api.log);
  const logUnknown = unknownFieldLog(api);

  return (method, path) => {
    const match = matchRoute(method, path);
    if (match === undefined) return undefined;
    const { operation, params } = match;
    const { carries } = contract[operation] as Route;
    const { query, body, response } = schemasOf(operation);
    return {
      label: operation,
      access: "key",
      credential: keyCredential,
      acceptsCookie: true,
      checkOrigin,
      bounds: boundsOf(carries, api),
      isJson: (request) => !isProto(request) && !isForm(request),
      ...(carries === "adapter" ? { checkHeaders: checkForm } : {}),
      validate: ({ url, wire, request }): Received | undefined => {
        if (isPass(operation)) return undefined; // decoded by its handler, which reports errors in the data through the future
        if (operation === "optimStep") refuseOtherOptimizers(wire);
        const received = {
          params,
          query: query?.decode(Object.fromEntries(url.searchParams)),
          body: body?.decode(operation === "telemetry" ? withProcessUuid(wire) : wire),
        };
        logUnknown(operation, wire);
        hosted.check(operation, received.body ?? received.query, request.headers.get("user-agent"));
        return received;
      },
      answer: async (call, received) => {
        const value = isPass(operation)
          ? await handlers[operation](call, passForm(operation, call.request))
          : await (handlers[operation] as (received: unknown, call: Call) => Promise<unknown>)(received, call);
        const answered =
          value instanceof Response
            ? value
            : jsonAnswer(value === undefined || response === undefined ? {} : response.encode(value as object));
        await api.queue.context.store.db.synced(); // what the response acknowledges survives a power cut
        return answered;
      },
      ...(numberedKinds[operation] === undefined
        ? {}
        : { onFailure: (call, error) => useUpNumber(api, operation, call, error) }),
    };
  };
}

function boundsOf(carries: Route["carries"], { limits }: Api): BodyBounds {
  if (carries === "data") return limits;
  const most = carries === "adapter" ? limits.adapterBytes : limits.parametersBytes;
  return { bodyBytes: most, decompressedBytes: most };
}

const passForm = (operation: PassOperation, request: Request) =>
  isProto(request) ? "proto" : operation === "forward" ? "forward-json" : "json";

/**
 * Telemetry of SDKs before 0.24 has no `process_uuid`. A 422 would make them print a traceback for every batch, and no handler reads the
 * field.
 */
const withProcessUuid = (wire: unknown): unknown =>
  typeof wire === "object" && wire !== null && !Object.hasOwn(wire, "process_uuid")
    ? { ...wire, process_uuid: "" }
    : wire;

/** A refused request of a model uses up its `seq_id`, so that later requests do not wait for it. */
async function useUpNumber(api: Api, operation: Operation, call: Call, error: unknown): Promise<void> {
  const kind = numberedKinds[operation];
  const at = peekJson(call.wire);
  const willBeRetried = [429, 503, 507].includes(describeError(error)?.status ?? 0);
  const isReused = error instanceof Refusal && error.code === "number_reused";
  if (kind === undefined || at === undefined || willBeRetried || isReused) return;
  const reason = error instanceof Refusal ? new UserError(error.message) : error;
  try {
    const model = ownModel(api, call, at.modelId);
    await api.queue.refuse({ kind, seq: at.seqId, tenant: call.caller.tenant }, model, reason);
  } catch (second) {
    if (!(second instanceof Refusal)) throw second; // the client gets the first refusal
  }
}

/** Unknown fields are accepted, because newer clients send them; each one is logged once. */
function unknownFieldLog(api: Api): (operation: Operation, wire: unknown) => void {
  const logged = new Set<string>();
  return (operation, wire) => {
    const { body } = schemasOf(operation);
    if (body === undefined || logged.size > maxLoggedFields) return;
    for (const name of unknownFields(body as unknown as Message<never, never>, wire)) {
      const field = name.slice(0, 100);
      const key = `${operation}.${field}`;
      if (logged.has(key)) continue;
      logged.add(key);
      api.log.info("request_field.ignored", { operation, field });
    }
  };
}

function handlersOf({ api, strict, studio }: Options): Handlers {
  const extensions = [...(strict ? [] : ["constraint"]), ...(studio === undefined ? [] : ["studio"])];
  return {
    ...serviceHandlers(api, extensions, folderTokenizers(api, studio?.folders)),
    ...trainingHandlers(api),
    ...samplingHandlers(api, strict),
    ...restHandlers(api),
    ...customLossHandlers(api),
    ...futuresHandlers(api),
    ...sessionHandlers(api),
    ...usageHandlers(api),
    ...progressHandlers(api),
    ...runFolderHandlers(api, studio?.folders),
    ...foreignWeightsHandlers(api),
    ...traceHandlers(api),
    deleteRun: ({ params }, call) => deleteRun(api, call, params.trainingRunId),
  };
}
