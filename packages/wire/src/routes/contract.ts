/**
 * The contract: every route of the Tinker API once, with its request, its answer and its options. The client's transport and the
 * server's router both use this table.
 */

import type { InputTypeOf, Message, TypeOf } from "../schema/message.ts";
import { coreRoutes } from "./core-routes.ts";
import { restRoutes } from "./rest-routes.ts";
import { type BinaryBody, type EncodedRequest, encodeBy, type PathParams, type Route } from "./route.ts";

/** Every route of the service: method, path, request, response and sending options. */
export const contract = { ...coreRoutes, ...restRoutes } as const;

/** An operation's name. */
export type Operation = keyof typeof contract;

type QueryOf<R> =
  R extends Route<string, infer Q, infer _B, infer _A>
    ? Q extends { readonly fields: readonly unknown[] }
      ? Q
      : never
    : never;
type BodyOf<R> = R extends Route<string, infer _Q, infer B, infer _A> ? B : never;
type AnswerOf<R> = R extends Route<string, infer _Q, infer _B, infer A> ? A : never;
type BodyInput<B> = B extends BinaryBody<infer T> ? T : B extends Message<infer _T, infer I> ? I : unknown;
type BodyValue<B> = B extends BinaryBody<infer T> ? T : B extends Message<infer T, infer _I> ? T : undefined;
type QueryInput<R> = [QueryOf<R>] extends [never] ? unknown : InputTypeOf<QueryOf<R>>;
type QueryValue<R> = [QueryOf<R>] extends [never] ? undefined : TypeOf<QueryOf<R>>;
type RouteOf<K extends Operation> = (typeof contract)[K];

/** A caller's request: path parameters, query and body in one object. */
export type RequestOf<K extends Operation> = PathParams<RouteOf<K>["path"]> &
  QueryInput<RouteOf<K>> &
  BodyInput<BodyOf<RouteOf<K>>>;
/** The answer that a caller gets. */
export type ResponseOf<K extends Operation> = AnswerOf<RouteOf<K>> extends Message<infer T, infer _> ? T : unknown;
/** The request that a server's handler gets. */
export interface ReceivedOf<K extends Operation> {
  readonly params: PathParams<RouteOf<K>["path"]>;
  readonly query: QueryValue<RouteOf<K>>;
  readonly body: BodyValue<BodyOf<RouteOf<K>>>;
}

/**
 * Splits a request into path, query and body, by its route.
 *
 * @throws {@link InvalidInputError} naming the field, before anything is sent.
 */
export function encodeRequest<K extends Operation>(operation: K, request: RequestOf<K>): EncodedRequest {
  return encodeBy(contract[operation], operation, request);
}
