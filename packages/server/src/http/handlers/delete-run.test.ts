/** Deleting a run deletes its checkpoints; a run with unfinished requests is not deleted. */
import { afterEach, expect, test } from "vitest";
import { TestServer } from "../../testing/test-server.ts";

let server: TestServer;
afterEach(() => server.close());
const remove = (run: string) => server.post(`tinklet/runs/${run}/delete`, {});

test("deletes the run and its checkpoints, and no others", async () => {
  server = await TestServer.open();
  const session = await server.session();
  const [run, other] = [await server.model(session), await server.model(session, { seq: 1 })];
  for (const model_id of [run, other])
    await server.result(server.post("save_weights", { model_id, path: "kept", seq_id: 1 }));
  expect((await remove(run)).json).toEqual({ deleted_checkpoints: 1 });
  expect((await server.send("GET", `training_runs/${run}`)).status).toBe(404);
  const { training_runs: left } = (await server.send("GET", "training_runs?limit=10&offset=0")).json as {
    training_runs: { training_run_id: string }[];
  };
  expect(left.map(({ training_run_id: id }) => id)).toEqual([other]);
  const info = (id: string) => server.post("weights_info", { tinker_path: `tinker://${id}/weights/kept` });
  expect([(await info(run)).status, (await info(other)).status]).toEqual([404, 200]);
  expect((await remove(run)).status).toBe(404);
});

test("is refused while the run has unfinished requests", async () => {
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  let held = false;
  server = await TestServer.open({ engine: { beforeCall: () => (held ? gate : undefined) } });
  const run = await server.model(await server.session());
  held = true;
  const pass = server.post("save_weights", { model_id: run, path: "x", seq_id: 1 });
  await pass;
  const refused = await remove(run);
  expect([refused.status, refused.json.code]).toEqual([400, "run_busy"]);
  open();
  await server.result(pass);
  expect((await remove(run)).json).toEqual({ deleted_checkpoints: 1 });
});
