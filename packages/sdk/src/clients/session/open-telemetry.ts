/**
 * Spans and metrics for OpenTelemetry, through the optional peer `@opentelemetry/api`. Without the package, or without a provider
 * registered by the application, this does nothing. Attributes contain ids, counts and names, never contents.
 */
import { omitUndefined } from "@tinklet/wire/options";
import { packageVersion } from "../../transport/environment.ts";
import { type Instruments, noInstruments } from "./instruments.ts";

// Types of the used parts of `@opentelemetry/api`, declared here because the package and its types are optional.

interface Span {
  setAttributes(attributes: Record<string, string | number>): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  end(): void;
}
interface Histogram {
  record(value: number, attributes?: Record<string, string | number>): void;
}
interface Tracer {
  startSpan(name: string, options?: { attributes?: Record<string, string | number> }): Span;
}
interface Meter {
  createHistogram(name: string, options?: { unit?: string; description?: string }): Histogram;
}

/** The part of `@opentelemetry/api` that is used. */
export interface OpenTelemetryApi {
  readonly trace: { getTracer(name: string, version?: string): Tracer };
  readonly metrics: { getMeter(name: string, version?: string): Meter };
  readonly context: { active(): unknown };
  readonly propagation: { inject(context: unknown, carrier: Record<string, string>): void };
}

/** `SpanStatusCode.ERROR`, copied to avoid an import. */
const errorStatus = 2;

/** Instruments over an installed API. */
export function openTelemetryInstruments(api: OpenTelemetryApi, nowMs: () => number): Instruments {
  const tracer = api.trace.getTracer("tinklet", packageVersion);
  const meter = api.metrics.getMeter("tinklet", packageVersion);
  const durations: Histogram = meter.createHistogram("tinker.client.operation.duration", {
    unit: "s",
    description: "Time from the call to its result",
  });
  const usage: Histogram = meter.createHistogram("gen_ai.client.token.usage", {
    unit: "{token}",
    description: "Tokens per call",
  });
  return {
    start: (operation, attributes) => {
      const startedAtMs = nowMs();
      const common = { "gen_ai.system": "tinker", "gen_ai.operation.name": operation, ...attributes };
      const span = tracer.startSpan(`tinker.${operation}`, { attributes: common });
      return {
        set: (more) => {
          span.setAttributes({ ...more });
        },
        end: (error) => {
          const failed = error === undefined ? {} : { "error.type": (error as Error).name ?? "Error" };
          if (error !== undefined) {
            span.setStatus({ code: errorStatus, message: (error as Error).message ?? String(error) });
            span.setAttributes(failed);
          }
          span.end();
          durations.record((nowMs() - startedAtMs) / 1000, { "gen_ai.operation.name": operation, ...failed });
        },
      };
    },
    tokens: (kind, count, attributes) => usage.record(count, { "gen_ai.token.type": kind, ...attributes }),
    traceHeaders: () => {
      const carrier: Record<string, string> = {};
      api.propagation.inject(api.context.active(), carrier);
      // Only the W3C trace headers: baggage may contain data that is not meant for the service.
      const { traceparent, tracestate } = carrier;
      return omitUndefined({ traceparent, tracestate });
    },
  };
}

/** Instruments over the API if it is installed, else instruments that do nothing. */
export async function loadInstruments(
  nowMs: () => number,
  load: () => Promise<OpenTelemetryApi> = () =>
    import(/* webpackIgnore: true */ /* @vite-ignore */ "@opentelemetry/api"),
): Promise<Instruments> {
  try {
    return openTelemetryInstruments(await load(), nowMs);
  } catch {
    return noInstruments;
  }
}
