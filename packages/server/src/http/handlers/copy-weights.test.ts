/** Copies of checkpoints: to another project, into a session, and independent of their source. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { TestServer } from "../../testing/test-server.ts";

let server: TestServer;
let path: string;
let model: string;
beforeAll(async () => {
  server = await TestServer.open();
  model = await server.model();
  path = (await server.result(server.post("save_weights", { model_id: model, seq_id: 1, path: "a" }))).path as string;
});
afterAll(() => server.close());

const copy = (fields: object, headers?: Record<string, string>) =>
  server.post("copy_weights", { source_path: path, ...fields }, headers);
const loaded = async (from: string) => {
  const answer = await server.post("load_weights", {
    session_id: await server.session(),
    model_seq_id: 0,
    path: from,
    optimizer: true,
  });
  return (await server.result(answer)).error as string | undefined;
};

it("goes to another project, in a new run", async () => {
  const { json } = await copy({ destination_project_id: "other" });
  const [run] = (json.tinker_path as string).replace("tinker://", "").split("/");
  const listed = await server.get("training_runs?project_id=other");
  expect(JSON.stringify(listed.json)).toContain(run);
  expect(JSON.stringify((await server.get("training_runs?project_id=third")).json)).not.toContain(run);
  expect(await loaded(json.tinker_path)).toBeUndefined();
});

it("becomes a numbered run of a session, in the session's project", async () => {
  const session = await server.session();
  await server.send("PUT", `sessions/${session}/project`, { project_id: "mine" });
  const { json, status } = await copy({ session_id: session, model_seq_id: 4 });
  expect([status, json.tinker_path]).toEqual([200, `tinker://${session}:train:4/weights/a`]);
  expect((await copy({ session_id: session, model_seq_id: 4 })).json.tinker_path).toBe(json.tinker_path); // a retry
  expect(JSON.stringify((await server.get("training_runs?project_id=mine")).json)).toContain(`${session}:train:4`);
  expect(await loaded(json.tinker_path)).toBeUndefined();
});

it("is refused for a number that is in use, or a session without a number", async () => {
  const session = model.split(":")[0]!;
  await server.model(session, { seq: 1 });
  expect((await copy({ session_id: session, model_seq_id: 1 })).json).toMatchObject({ code: "number_reused" });
  for (const half of [{ session_id: session }, { model_seq_id: 2 }]) expect((await copy(half)).status).toBe(422);
  const both = { session_id: session, model_seq_id: 5, destination_project_id: "x" };
  expect((await copy(both)).status).toBe(422);
});
