/**
 * Answers of the stub server, as bytes with a way to deliver them.
 */
import { stringifyJson } from "@tinklet/wire";
import type { Delivery } from "./faults.ts";

const utf8 = new TextEncoder();

/** An answer, and how to deliver it. */
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
