/**
 * Requests that crash the process, or hang so that it must be killed: they are identified and fail, and the other requests run. A crash is
 * simulated by opening a copy of the data folder.
 */
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { baseModel, gateway, type TestAnswer, TestServer } from "../../testing/test-server.ts";

/** Opens servers one after the other, each on a copy of the data folder that the previous one uses. */
async function lives() {
  const root = await mkdtemp(join(tmpdir(), "tinklet-quarantine-"));
  const open: TestServer[] = [];
  onTestFinished(async () => {
    ended.resolve();
    for (const server of open) {
      const closed = server.close();
      await server.clock.advance(5000);
      await closed;
    }
    await rm(root, { recursive: true, force: true });
  });
  const ended = gateway();
  let count = 0;
  /** @param fatal - engine calls that hang in this process. `reached` resolves when all of them were made. */
  const live = async (fatal: readonly string[]) => {
    const dataDir = join(root, `life-${++count}`);
    if (count > 1) await cp(join(root, `life-${count - 1}`), dataDir, { recursive: true });
    const reached = fatal.map(() => gateway());
    const calls: string[] = [];
    const beforeCall = (name: string) => {
      calls.push(name);
      const at = fatal.indexOf(name);
      if (at < 0) return undefined;
      reached[at]!.resolve();
      return new Promise<void>(() => {});
    };
    // An engine that hangs in a call also hangs in close, until the test ends.
    const beforeClose = () => (fatal.length > 0 ? ended.promise : undefined);
    const server = await TestServer.open({ dataDir, engine: { beforeCall, beforeClose } });
    open.push(server);
    return { server, calls, reached: Promise.all(reached.map(({ promise }) => promise)) };
  };
  return live;
}

const sampleOf = (server: TestServer) =>
  server.post("asample", {
    base_model: baseModel,
    prompt: { chunks: [{ tokens: [1, 2] }] },
    sampling_params: { max_tokens: 2, seed: 1 },
  });

test("a request that crashes the process twice fails, and a request that ran at the same time finishes", async () => {
  const live = await lives();
  const first = await live(["forwardBackward", "sample"]);
  const model = await first.server.model();
  const [fatal, innocent] = [await first.server.pass(model, 1), await sampleOf(first.server)];
  await first.reached; // both were running
  const second = await live(["forwardBackward"]);
  await second.reached;
  expect(second.calls).not.toContain("sample");
  expect(second.server.logged).toContainEqual(expect.objectContaining({ event: "request.quarantined", deaths: 1 }));
  const poll = second.server.retrieve(innocent.json.request_id);
  await second.server.clock.advance(30_000);
  expect((await poll).json.queue_state_reason).toContain("that request runs alone");
  const third = await live([]);
  expect(third.server.logged).toContainEqual(expect.objectContaining({ event: "request.given_up", deaths: 2 }));
  expect(await third.server.result(fatal)).toEqual({
    error: expect.stringMatching(/^The server crashed or was killed 2 times while it ran this request; the limit is 2/),
    category: "user",
  });
  expect((await third.server.sampleResult(innocent)).sequences).toHaveLength(1);
  expect((await third.server.passResult(third.server.pass(model, 2))).metrics).toHaveProperty("loss:sum");
});

test("a sample that hangs is run again after one restart and fails after the second", async () => {
  const live = await lives();
  const first = await live(["sample"]);
  const fatal = await sampleOf(first.server);
  await first.reached;
  await (await live(["sample"])).reached;
  const second = await live(["sample"]);
  expect(await second.server.result(fatal)).toMatchObject({ error: expect.stringContaining("killed 2 times") });
  expect(second.calls).not.toContain("sample");
});

test("a server that is stopped while a request hangs, and then killed, counts as killed", async () => {
  const live = await lives();
  const first = await live(["sample"]);
  const fatal = await sampleOf(first.server);
  await first.reached;
  const second = await live(["sample"]);
  await second.reached;
  void second.server.close();
  await second.server.clock.advance(10_000); // the engine hangs, and the supervisor kills the process
  const third = await live([]);
  expect(await third.server.result(fatal)).toMatchObject({ error: expect.stringContaining("killed 2 times") });
});

test("requests that wait when the process is killed are not counted as running", async () => {
  const live = await lives();
  const first = await live(["forwardBackward"]);
  const model = await first.server.model();
  await first.server.pass(model, 1);
  const waiting = [2, 3, 4].map((seq) => first.server.pass(model, seq));
  await Promise.all(waiting);
  await first.reached;
  await (await live(["forwardBackward"])).reached;
  const third = await live([]);
  for (const pass of waiting) expect((await third.server.passResult(pass)).metrics).toHaveProperty("loss:sum");
});

test("a stopped server does not count running requests as crashed", async () => {
  const root = await mkdtemp(join(tmpdir(), "tinklet-quarantine-"));
  onTestFinished(() => rm(root, { recursive: true, force: true }));
  let pass: TestAnswer | undefined;
  for (let life = 0; life < 6; life++) {
    const reached = gateway();
    const beforeCall = (name: string) => {
      if (name !== "forwardBackward") return undefined;
      reached.resolve();
      return new Promise<void>(() => {});
    };
    const server = await TestServer.open({ dataDir: root, engine: { beforeCall } });
    pass ??= await server.pass(await server.model(), 1);
    await reached.promise;
    const closed = server.close();
    await server.clock.advance(5000);
    await closed;
  }
  const server = await TestServer.open({ dataDir: root });
  onTestFinished(() => server.close());
  expect((await server.passResult(pass!)).metrics).toHaveProperty("loss:sum");
});
