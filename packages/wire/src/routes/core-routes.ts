/**
 * The routes of training and sampling, and the decoders of future results. They are part of every client; the others
 * (`rest-routes.ts`) are loaded when one of them is called.
 */
import { CreateCustomLossResponse } from "../messages/custom-loss.ts";
import { CancelFutureRequest, FutureRetrieveRequest, UntypedAPIFuture } from "../messages/futures.ts";
import { SampleRequest } from "../messages/sampling.ts";
import {
  AuthTokenResponse,
  ClientConfigRequest,
  ClientConfigResponse,
  ClientDynamicConfigResponse,
  CreateSamplingSessionRequest,
  CreateSamplingSessionResponse,
  CreateSessionRequest,
  CreateSessionResponse,
  SessionHeartbeatRequest,
  SessionHeartbeatResponse,
} from "../messages/session.ts";
import {
  CreateModelRequest,
  CreateModelResponse,
  GetInfoRequest,
  GetInfoResponse,
  OptimStepRequest,
  OptimStepResponse,
  UnloadModelResponse,
} from "../messages/training.ts";
import type { ForwardBackwardRequest } from "../messages/training-json.ts";
import {
  LoadWeightsRequest,
  LoadWeightsResponse,
  SaveWeightsExternalResponseInternal,
  SaveWeightsForSamplerRequest,
  SaveWeightsForSamplerResponseInternal,
  SaveWeightsRequest,
  SaveWeightsResponse,
} from "../messages/weights.ts";
import { decodeForwardBackwardOutput, decodeSampleResponse, encodeForwardBackwardRequest } from "../proto/tensors.ts";
import { message } from "../schema/message.ts";
import { type BinaryBody, post, route } from "./route.ts";

const Empty = message<Record<never, never>>("Empty", {});

/** The binary training request, as a body. */
export const forwardBackwardBody: BinaryBody<ForwardBackwardRequest> = {
  contentType: "application/x-protobuf",
  encode: encodeForwardBackwardRequest,
};

// ---- results of futures -----------------------------------------------------------------------------------------

/** The decoder of a future's result, by its request type (`X-Tinker-Request-Type`). */
export const futureResults = {
  CreateModel: { format: "json", decode: CreateModelResponse.decode },
  LoadWeights: { format: "json", decode: LoadWeightsResponse.decode },
  OptimStep: { format: "json", decode: OptimStepResponse.decode },
  SaveWeights: { format: "json", decode: SaveWeightsResponse.decode },
  SaveWeightsForSampler: { format: "json", decode: SaveWeightsForSamplerResponseInternal.decode },
  SaveWeightsExternal: { format: "json", decode: SaveWeightsExternalResponseInternal.decode },
  CreateCustomLoss: { format: "json", decode: CreateCustomLossResponse.decode },
  UnloadModel: { format: "json", decode: UnloadModelResponse.decode },
  Forward: { format: "proto", decode: decodeForwardBackwardOutput },
  ForwardBackward: { format: "proto", decode: decodeForwardBackwardOutput },
  Sample: { format: "proto", decode: decodeSampleResponse },
} as const;
/** The request types whose results are polled. */
export type FutureResultName = keyof typeof futureResults;
/** The API type of a future's result. */
export type FutureResult<K extends FutureResultName> = ReturnType<(typeof futureResults)[K]["decode"]>;

const session = { pool: "session" } as const;

/** Routes of sessions, training and sampling. */
export const coreRoutes = {
  clientConfig: post("/client/config", ClientConfigRequest, ClientConfigResponse, session),
  clientDynamicConfig: post("/client/dynamic_config", ClientConfigRequest, ClientDynamicConfigResponse, {
    pool: "session",
    retry: "background",
    timeoutMs: 10_000,
  }),
  authToken: post("/auth/token", Empty, AuthTokenResponse, session),
  createSession: post("/create_session", CreateSessionRequest, CreateSessionResponse, session),
  sessionHeartbeat: post("/session_heartbeat", SessionHeartbeatRequest, SessionHeartbeatResponse, {
    pool: "session",
    retry: "background",
    timeoutMs: 10_000,
  }),
  createSamplingSession: post(
    "/create_sampling_session",
    CreateSamplingSessionRequest,
    CreateSamplingSessionResponse,
    session,
  ),
  createModel: post("/create_model", CreateModelRequest, UntypedAPIFuture, { future: "CreateModel" }),
  getInfo: post("/get_info", GetInfoRequest, GetInfoResponse),
  forwardBackward: post("/forward_backward", forwardBackwardBody, UntypedAPIFuture, {
    future: "ForwardBackward",
    carries: "data",
  }),
  optimStep: post("/optim_step", OptimStepRequest, UntypedAPIFuture, { future: "OptimStep" }),
  saveWeights: post("/save_weights", SaveWeightsRequest, UntypedAPIFuture, { future: "SaveWeights" }),
  saveWeightsForSampler: post("/save_weights_for_sampler", SaveWeightsForSamplerRequest, UntypedAPIFuture, {
    future: "SaveWeightsForSampler",
  }),
  loadWeights: post("/load_weights", LoadWeightsRequest, UntypedAPIFuture, { future: "LoadWeights" }),
  asample: post("/asample", SampleRequest, UntypedAPIFuture, {
    pool: "sample",
    retry: "none",
    future: "Sample",
    carries: "data",
  }),
  retrieveFuture: route(
    "POST",
    "/retrieve_future",
    { body: FutureRetrieveRequest },
    {
      pool: "retrieve",
      retry: "none",
      timeoutMs: 45_000,
    },
  ),
  cancelFuture: route(
    "POST",
    "/cancel_future",
    { body: CancelFutureRequest },
    { pool: "retrieve", retry: "background", timeoutMs: 30_000, since: "0.26" },
  ),
} as const;
