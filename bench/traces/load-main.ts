/** Sends exports at a fixed rate for some seconds, as a process of its own; prints the number of spans and the times of the answers. */
import { encodeTraceRequest } from "@tinklet/wire/otlp";
import { chatSpan, exportOf } from "../../packages/server/src/testing/trace-exports.ts";
import { traceRequestOfJson } from "../../packages/server/src/traces/otlp-json.ts";

const options = JSON.parse(process.argv[2] ?? "{}") as {
  readonly url: string;
  readonly key: string;
  readonly seconds: number;
  readonly spansPerSecond: number;
  readonly batch: number;
  readonly spanBytes: number;
};
const { url, key, seconds, spansPerSecond, batch, spanBytes } = options;
const prompt = "x".repeat(spanBytes - 500);
const everyMs = (1000 * batch) / spansPerSecond;
const times: number[] = [];
const failed: string[] = [];

async function send(): Promise<void> {
  const spans = Array.from({ length: batch }, () => chatSpan({ prompt, at: Math.floor(Date.now() / 1000) }));
  const body = encodeTraceRequest(traceRequestOfJson(exportOf(spans)));
  const started = performance.now();
  const response = await fetch(`${url}/v1/traces`, {
    method: "POST",
    headers: { "content-type": "application/x-protobuf", "x-api-key": key },
    body: body as Uint8Array<ArrayBuffer>,
  });
  const answer = await response.arrayBuffer();
  if (response.status !== 200 || answer.byteLength > 0) failed.push(`${response.status}, ${answer.byteLength} bytes`);
  times.push(performance.now() - started);
}

const sent: Promise<void>[] = [];
const started = performance.now();
for (let i = 0; i * everyMs < seconds * 1000; i++) {
  const wait = started + i * everyMs - performance.now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  sent.push(send());
}
await Promise.all(sent);
if (failed.length > 0) throw new Error(`${failed.length} exports failed: ${failed[0]}`);
times.sort((a, b) => a - b);
const at = (share: number) => times[Math.min(times.length - 1, Math.floor(share * times.length))];
console.log(JSON.stringify({ spans: times.length * batch, latencies: { p50: at(0.5), p99: at(0.99) } }));
