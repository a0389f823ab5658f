/** Evaluations on a shared server: each has answers of all its models, so only the owner of all of them may read it. */
import type { Evaluation, RunFolders } from "@tinklet/wire";
import { expect, onTestFinished, test } from "vitest";
import { TestServer } from "../testing/test-server.ts";
import { hashApiKey } from "./access/auth.ts";

/** Evaluations by the runs whose weights they measure, besides the base model. */
const evaluations = (byName: Readonly<Record<string, readonly string[]>>): NonNullable<RunFolders["evaluations"]> => {
  const all = Object.entries(byName).map(
    ([name, runs]): Evaluation => ({
      ...{
        evaluationId: name,
        name,
        data: "",
        createdAt: new Date(0),
        settings: {},
        items: 1,
        scores: [],
        results: [],
      },
      models: [null, ...runs.map((run) => `tinker://${run}/sampler_weights/final`)].map((path) => ({
        ...{ label: "", model: "", path },
      })),
    }),
  );
  return {
    list: async () => all,
    read: async (id) => {
      const evaluation = all.find(({ evaluationId }) => evaluationId === id);
      return evaluation && { evaluation, rows: [{ answers: ["secret"] }], total: 1 };
    },
  };
};

test("with configured keys an evaluation is read by the owner of all its models only", async () => {
  const apiKeys = ["alice", "bob"].map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) }));
  const runs: Record<string, string[]> = { alice: [], bob: [], both: [], base: [], unknown: ["s-0:train:0"] };
  const none = async () => [];
  const folders: RunFolders = {
    list: none,
    read: async () => undefined,
    rollouts: async () => undefined,
    get evaluations() {
      return evaluations(runs);
    },
  };
  const server = await TestServer.open({ apiKeys, studio: { file: () => undefined, folders } });
  onTestFinished(() => server.close());
  for (const name of ["alice", "bob"]) {
    server.key = `tml-${name}`;
    const run = await server.model(await server.session());
    runs[name]?.push(run);
    runs["both"]?.push(run);
  }
  for (const name of ["alice", "bob"]) {
    server.key = `tml-${name}`;
    const { json } = await server.get("tinklet/evaluations");
    expect(json.evaluations.map((one: { name: string }) => one.name)).toEqual([name]);
    const read = await Promise.all(Object.keys(runs).map((id) => server.get(`tinklet/evaluations/${id}`)));
    expect(read.map(({ status }) => status)).toEqual(Object.keys(runs).map((id) => (id === name ? 200 : 404)));
  }
});
