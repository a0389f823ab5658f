/** Requests under which the process dies: found, given up, and the others go on. A death is a copy of the folder as it is at that moment. */
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { baseModel, gateway, type TestAnswer, TestServer } from "../testing/test-server.ts";

/** Servers one after the other, each on what the one before left behind when it "died". */
async function lives() {
  const root = await mkdtemp(join(tmpdir(), "tinklet-suspects-"));
  const open: TestServer[] = [];
  onTestFinished(async () => {
    for (const server of open) {
      const closed = server.close();
      await server.clock.advance(5000);
      await closed;
    }
    await rm(root, { recursive: true, force: true });
  });
  let count = 0;
  /** @param fatal - the engine's calls that never return in this life; resolves when all of them were made. */
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
    const server = await TestServer.open({ dataDir, engine: { beforeCall } });
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

test("one that kills the process again and again is given up, and what ran beside it is not", async () => {
  const live = await lives();
  const first = await live(["forwardBackward", "sample"]);
  const model = await first.server.model();
  const [fatal, innocent] = [await first.server.pass(model, 1), await sampleOf(first.server)];
  await first.reached;
  const second = await live(["forwardBackward", "sample"]); // both were running
  await second.reached;
  for (let life = 3; life <= 4; life++) {
    const alone = await live(["forwardBackward"]);
    await alone.reached;
    expect(alone.calls).not.toContain("sample");
    expect(alone.server.logged).toContainEqual(expect.objectContaining({ event: "request.suspect", deaths: life - 2 }));
    const poll = alone.server.retrieve(innocent.json.request_id);
    await alone.server.clock.advance(30_000);
    expect((await poll).json.queue_state_reason).toContain("the server died");
  }
  const last = await live([]);
  expect(await last.server.result(fatal)).toEqual({
    error: expect.stringMatching(/^The server died 3 times while it ran this request.* send less at once/),
    category: "user",
  });
  expect((await last.server.sampleResult(innocent)).sequences).toHaveLength(1);
  expect((await last.server.passResult(last.server.pass(model, 2))).metrics).toHaveProperty("loss:sum");
});

test("a sample that kills the process is given up as well", async () => {
  const live = await lives();
  const first = await live(["sample"]);
  const fatal = await sampleOf(first.server);
  await first.reached;
  for (let life = 2; life <= 4; life++) await (await live(["sample"])).reached;
  const last = await live(["sample"]);
  expect(await last.server.result(fatal)).toMatchObject({ error: expect.stringContaining("died 3 times") });
});

test("a server that is stopped, and not killed, counts nothing", async () => {
  const root = await mkdtemp(join(tmpdir(), "tinklet-suspects-"));
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
