// `npm run drill -- NAME [options]`: runs one of the long drills, each in a process of its own with the options given.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { bundle } from "../test/fixtures/programs/bundle.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = `${root}node_modules/vitest/vitest.mjs`;

/** What each drill does, and the arguments of Node that run it. */
const drills = {
  attacks: {
    does: "a server attacked, one row of the hostile review after the other: [--checkout FOLDER] [--only ROW]",
    command: (rest) => [`${root}test/drills/attacks/attacks.mjs`, ...rest],
  },
  client: {
    does: "the SDK against a faulty server: [calls] [seed]",
    command: (rest) => {
      run([`${root}tools/build.mjs`]); // it tests the package as built
      return [`${root}packages/sdk/src/testing/fault-drill-main.mjs`, ...rest];
    },
  },
  kill: {
    does: "the server killed at named instants: [--runs 200] [--seed 1] [--model FOLDER] [--log FILE]",
    command: (rest) => [`${root}test/drills/kill/drill.mjs`, ...rest],
  },
  limiter: {
    does: "50 processes of one account against a server with a limit, without and with `sharedLimits`: [processes] [requests] [limit]",
    command: (rest) => {
      run([`${root}tools/build.mjs`]);
      return [`${root}test/drills/limiter/limiter.mjs`, ...rest];
    },
  },
  recipes: {
    does: "recipes killed and resumed, their records compared: [--kills 50] [--seed 1] [--steps 5] [--real] [--log FILE]",
    command: (rest) => [`${root}test/drills/recipes/kill-drill.mjs`, ...rest],
  },
  fuzz: {
    does: "broken requests: [requests] [seed]",
    command: async (rest) => [await bundle("packages/server/src/testing/fuzz-main.ts"), ...rest],
  },
  grammar: {
    does: "formats at random, compiled and written: [schemas] [seed]",
    command: async (rest) => ["--expose-gc", await bundle("packages/engine/src/testing/grammar-fuzz-main.ts"), ...rest],
  },
  short: {
    does: "every *.drill.test.ts: tests that are too slow for `npm test`; a part of .ci/run",
    command: (rest) => {
      process.env.VITEST_DRILLS = "1";
      return [vitest, "run", ...rest];
    },
  },
  sizes: {
    does: "every rank, prompt length, prompt score, batch and runtime: some hours; -t native for one runtime alone",
    command: (rest) => {
      process.env.SIZES = "all";
      process.env.VITEST_DRILLS = "1";
      return [vitest, "run", "packages/engine/src/sample/size-matrix", "--reporter", "verbose", ...rest];
    },
  },
  soak: {
    does: "20 clients, good and bad, on the bundled model while the server is stopped and killed: [--minutes 15] [--seed 1]",
    command: (rest) => [`${root}test/drills/soak/soak.mjs`, ...rest],
  },
  streams: {
    does: "10,000 streams of one key beside the chats of another, on the bundled model: [--streams 10000] [--chats 20]",
    command: (rest) => [`${root}test/drills/streams/streams.mjs`, ...rest],
  },
  traces: {
    does: "hostile exports of traces, and requests for those of another tenant: [requests] [seed]",
    command: async (rest) => ["--expose-gc", await bundle("packages/server/src/testing/trace-fuzz-main.ts"), ...rest],
  },
  upgrade: {
    does: "data folders of earlier releases; --record --from CHECKOUT --to FOLDER records those of one",
    command: (rest) =>
      rest[0] === "--record"
        ? [`${root}test/drills/upgrade/upgrade-record.mjs`, ...rest.slice(1)]
        : [vitest, "run", "test/drills/upgrade/upgrade.test.ts", ...rest],
  },
  weights: {
    does: "spoiled weight files: [cases] [seed]",
    command: (rest) => [`${root}test/drills/weights/drill.mjs`, ...rest],
  },
};

function run(args) {
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

const [name, ...rest] = process.argv.slice(2);
if (!Object.hasOwn(drills, name ?? "")) {
  console.error("usage: npm run drill -- NAME [options]");
  for (const [each, { does }] of Object.entries(drills)) console.error(`  ${each.padEnd(8)} ${does}`);
  process.exit(2);
}
run(await drills[name].command(rest));
