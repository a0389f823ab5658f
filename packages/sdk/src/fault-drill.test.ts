import * as sdk from "@tinklet/sdk";
import { expect, it } from "vitest";
import { drill, faultScript } from "./testing/fault-drill.mjs";
import { FakeClock } from "./testing/index.ts";
import { StubServer } from "./testing/stub-server.ts";

/** Virtual time after which a call is held to hang. */
const hangMs = 4 * 3_600_000;

it.each([
  ["a poll for each sample", false],
  ["one poll for all samples", true],
])(
  "fault drill with %s: 500 calls, no hang, no unhandled rejection, nothing applied twice or out of order, every failure typed",
  async (_, together) => {
    const clock = new FakeClock();
    const { script, counts } = faultScript(7);
    const stub = new StubServer({
      clock,
      faults: script,
      config: { fwdbwd_max_chunk_len: 1, sample_use_retrieve_futures: together },
    });
    // One loop moves the clock for all workers; a call waits for its own outcome, or for the limit.
    let running = true;
    const ticking = (async () => {
      for (let idle = 0; running; ) {
        const due = clock.nextDueMs ?? Infinity;
        // Only the limits are left: something real is under way (a module being loaded), or everything hangs.
        idle = due < hangMs / 2 ? 0 : idle + 1;
        await clock.advance(idle > 0 && idle < 1_000 ? 0 : due);
      }
    })();
    const wait = async <T>(promise: PromiseLike<T>, what: string): Promise<T> => {
      const hang = clock.sleep(hangMs).then(() => {
        throw Object.assign(new Error(`${what} hangs`), { hang: true });
      });
      hang.catch(() => {});
      return Promise.race([promise, hang]);
    };
    const result = await drill(sdk, {
      calls: 500,
      seed: 7,
      stub,
      client: { baseUrl: "http://stub.example", fetch: stub.fetch, clock },
      wait,
      jumpClock: () => clock.jump(-3_600_000),
    });
    running = false;
    await ticking;
    expect(result.problems).toEqual([]);
    expect(result.outcomes.ok + result.outcomes.failed).toBe(500);
    expect(result.outcomes.ok).toBeGreaterThan(350);
    expect(result.outcomes.failed).toBeGreaterThan(5); // the drill has teeth: some calls are beyond help
    expect(Object.keys(counts).length).toBeGreaterThan(20);
    expect(result.polls > 50).toBe(together);
  },
  60_000,
);
