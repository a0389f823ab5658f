/** The server's state: queue, memory, tokens per second, prompt reuse, and the usage of the signed-in key. */
import type { ServerStateResponse } from "@tinklet/wire";
import { useEffect, useState } from "preact/hooks";
import { call } from "../api.ts";
import { Chart } from "../chart.tsx";
import { formatBytes, formatCount, formatDuration } from "../format.ts";
import { Notice, Tile, WideTable } from "../parts.tsx";
import type { ChartLine } from "../series.ts";
import { now, problemText, session } from "../store.ts";
import { oneLine } from "../text.ts";
import { Usage } from "./usage.tsx";

const everyMs = 5000;

export function Server() {
  const [state, setState] = useState<ServerStateResponse>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    const load = () => {
      if (document.hidden) return;
      call("getServerState", {}).then(
        (found) => {
          setState(found);
          setProblem(undefined);
        },
        (error: unknown) => setProblem(problemText(error)),
      );
    };
    load();
    const timer = setInterval(load, everyMs);
    return () => clearInterval(timer);
  }, []);
  return (
    <section aria-labelledby="title">
      <div class="head">
        <h1 id="title">Server</h1>
      </div>
      {problem === undefined ? null : <Notice kind="problem" title={problem} />}
      {state === undefined ? (
        problem === undefined ? (
          <Notice kind="loading" title="Loading the server's state …" />
        ) : null
      ) : (
        <State state={state} />
      )}
    </section>
  );
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

function State({ state }: { readonly state: ServerStateResponse }) {
  const { rates } = state;
  const recent = (values: readonly number[]) => sum(values.slice(-7, -1)) / (6 * rates.intervalSeconds);
  const prompts = sum(rates.prefilled) + sum(rates.reused);
  const reuse = prompts === 0 ? "–" : `${((sum(rates.reused) / prompts) * 100).toFixed(0)} %`;
  return (
    <>
      <dl class="tiles">
        <Tile name="Unfinished requests" value={formatCount(state.pendingRequests)} detail="of all keys" />
        <Tile name="Memory" value={formatBytes(state.residentMemoryBytes)} detail="of the process" />
        <Tile name="Training now" value={`${formatCount(recent(rates.training))}/s`} detail="tokens, last minute" />
        <Tile name="Sampling now" value={`${formatCount(recent(rates.sampled))}/s`} detail="tokens, last minute" />
        <Tile name="Prompt reuse" value={reuse} detail="last hour" />
        <Tile name="Running for" value={formatDuration((now.value - state.startedAt.getTime()) / 1000)} />
      </dl>
      {state.durable ? null : (
        <p class="explain">
          This server stores nothing on disk: all data is lost when it stops. To keep data, start it with --data-dir
          FOLDER.
        </p>
      )}
      <h2>Your tokens per second, last hour</h2>
      <div class="charts">
        {(["training", "sampled", "prefilled", "reused"] as const).map((kind) => (
          <Chart
            key={kind}
            name={kind}
            lines={[rateLine(kind, rates)]}
            axis="time"
            smoothing={0}
            isLog={false}
            height={160}
            zoom={undefined}
            onZoom={() => {}}
          />
        ))}
      </div>
      <h2>Models</h2>
      {state.models.length === 0 ? (
        <Notice kind="empty" title="No model is served.">
          <p>This page shows run folders. To train and chat, start a server: npx tinklet serve</p>
        </Notice>
      ) : (
        <Models models={state.models} />
      )}
      {session.value?.tenant == null ? null : <Usage tenant={session.value.tenant} />}
    </>
  );
}

function rateLine(
  kind: "training" | "sampled" | "prefilled" | "reused",
  rates: ServerStateResponse["rates"],
): ChartLine {
  const values = rates[kind].slice(0, -1);
  const x = values.map((_, i) => (i - values.length + 1) * rates.intervalSeconds);
  return { key: kind, label: kind, colour: 0, x, y: values.map((n) => n / rates.intervalSeconds) };
}

function Models({ models }: { readonly models: ServerStateResponse["models"] }) {
  const columns = [
    ["Weights", (one: Model) => formatBytes(one.weightsBytes)],
    ["Adapters", (one: Model) => formatBytes(one.adaptersBytes)],
    ["Decoding cache", (one: Model) => formatBytes(one.cacheBytes)],
    ["Prompt cache", (one: Model) => formatBytes(one.prefixCacheBytes)],
    ["Sequences", (one: Model) => formatCount(one.activeSequences)],
    ["Waiting: training", (one: Model) => formatCount(one.waitingTraining)],
    ["Waiting: samples", (one: Model) => formatCount(one.waitingSamples)],
  ] as const;
  return (
    <WideTable name="Models">
      <table>
        <thead>
          <tr>
            <th scope="col">Model</th>
            {columns.map(([name]) => (
              <th key={name} scope="col" class="number">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {models.map((one) => (
            <tr key={one.baseModel}>
              <th scope="row">
                {oneLine(one.baseModel, 80)}
                <small>context of {formatCount(one.contextLength)} tokens</small>
              </th>
              {columns.map(([name, value]) => (
                <td key={name} class="number">
                  {value(one)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </WideTable>
  );
}
type Model = ServerStateResponse["models"][number];
