/**
 * A tracer of OpenTelemetry's API for tests, with a context manager: keeps the spans that end, as objects of OTLP's JSON. The exporters of
 * OpenTelemetry itself need a newer Node than this project; the interop suite `traces` runs them.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  type ContextManager,
  context,
  ROOT_CONTEXT,
  type Span,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { randomHex } from "@tinklet/wire/entropy";
import { onTestFinished } from "vitest";
import { keyValues } from "../../../server/src/testing/trace-exports.ts";

/** Registers the tracer until the test ends. @returns the spans that have ended, in that order */
export function recordSpans(): readonly { readonly name: string; readonly attributes: object[] }[] {
  const ended: { name: string; attributes: object[] }[] = [];
  const store = new AsyncLocalStorage<Context>();
  const manager: ContextManager = {
    active: () => store.getStore() ?? ROOT_CONTEXT,
    with: (active, run, self, ...args) => store.run(active, () => run.call(self as never, ...args)),
    bind: (_, target) => target,
    enable: () => manager,
    disable: () => manager,
  };
  let nanoseconds = 1_760_000_000_000_000_000n;
  const now = () => {
    nanoseconds += 1_000_000n;
    return String(nanoseconds);
  };

  const startSpan: Tracer["startSpan"] = (name, options = {}, parent = context.active()) => {
    const outer = trace.getSpan(parent)?.spanContext();
    const own = { traceId: outer?.traceId ?? randomHex(16), spanId: randomHex(8), traceFlags: 1 };
    const attributes: Record<string, unknown> = { ...options.attributes };
    const status: { code?: number; message?: string } = {};
    const startTimeUnixNano = now();
    const span = {
      attributes,
      spanContext: () => own,
      isRecording: () => true,
      setAttribute: (key: string, value: unknown) => {
        attributes[key] = value;
        return span;
      },
      setAttributes: (more: object) => {
        Object.assign(attributes, more);
        return span;
      },
      addEvent: () => span,
      addLink: () => span,
      addLinks: () => span,
      setStatus: (next: { code: number; message?: string }) => {
        Object.assign(status, next);
        return span;
      },
      updateName: () => span,
      recordException: () => {},
      end: () => {
        const known = Object.entries(attributes).filter(([, value]) => value !== undefined);
        ended.push({
          ...own,
          ...(outer === undefined ? {} : { parentSpanId: outer.spanId }),
          name,
          startTimeUnixNano,
          endTimeUnixNano: now(),
          attributes: keyValues(Object.fromEntries(known)),
          status,
        } as (typeof ended)[number]);
      },
    };
    return span as unknown as Span;
  };
  const tracer = {
    startSpan,
    startActiveSpan: (name: string, options: object, run: (span: Span) => unknown) => {
      const span = startSpan(name, options);
      return context.with(trace.setSpan(context.active(), span), () => run(span));
    },
  } as unknown as Tracer;
  context.setGlobalContextManager(manager);
  trace.setGlobalTracerProvider({ getTracer: () => tracer });
  onTestFinished(() => {
    trace.disable();
    context.disable();
  });
  return ended;
}
