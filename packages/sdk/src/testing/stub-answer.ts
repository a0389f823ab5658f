/**
 * Responses of the stub server: bytes and how they are delivered.
 */
import { stringifyJson } from "@tinklet/wire";
import type { Delivery } from "./faults.ts";

const utf8 = new TextEncoder();

/** A response and how it is delivered. */
export interface StubAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly delivery: Delivery;
}

export function json(status: number, value: unknown, headers: Readonly<Record<string, string>> = {}): StubAnswer {
  const body = utf8.encode(stringifyJson(value));
  return { status, headers: { "content-type": "application/json", ...headers }, body, delivery: "whole" };
}
