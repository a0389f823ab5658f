// The built server with the studio, until its input closes; a JSON argument has the options. The first line says where it listens.
import { hashApiKey, resolveModels, serve } from "../../../packages/server/dist/index.js";
import { openStudio } from "../../../packages/studio/dist/index.js";

const { port = 0, dataDir, runs = [], keys = [] } = JSON.parse(process.argv[2] ?? "{}");
const running = await serve({
  models: await resolveModels([]),
  port,
  dataDir,
  log: "off",
  studio: await openStudio({ runs }),
  ...(keys.length === 0 ? {} : { apiKeys: keys.map((name) => ({ name, sha256: hashApiKey(`tml-${name}`) })) }),
});
console.log(JSON.stringify({ url: running.url, port: running.port, studio: running.studioUrl() }));
for await (const _ of process.stdin);
await running.close();
