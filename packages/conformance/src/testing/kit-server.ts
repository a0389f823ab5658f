/** Runs this repository's server in the test process with a tiny model, the real engine and the real store; restartable. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openEngine } from "@tinklet/engine";
import type { FetchLike } from "@tinklet/sdk";
import { createServer, type TinkletServer } from "@tinklet/server";
import { writeTinyFolder } from "../../../../test/fixtures/models/tiny-folder.ts";

/** Intercepts every request between the kit and the server and produces the response. */
export type Wrapper = (request: Request, answer: (request: Request) => Promise<Response>) => Promise<Response>;

export interface KitServer {
  readonly options: { readonly baseUrl: string; readonly apiKey: string; readonly baseModel: string };
  /** A `fetch` to the server, through a wrapper if given. */
  fetch(wrapper?: Wrapper): FetchLike;
  restart(options?: { readonly loseData?: boolean }): Promise<void>;
  close(): Promise<void>;
}

const baseModel = "tiny/model";

export async function openKitServer(): Promise<KitServer> {
  const root = await mkdtemp(join(tmpdir(), "tinklet-kit-"));
  const folder = join(root, "model");
  await writeTinyFolder(folder, { num_hidden_layers: 1, max_position_embeddings: 96 });
  let generation = 0;
  const open = (): Promise<TinkletServer> =>
    createServer({
      models: [
        {
          name: baseModel,
          tokenizerId: folder,
          open: () => openEngine(folder, { inThread: true, runtime: "interpreter" }),
        },
      ],
      dataDir: join(root, `data-${generation}`),
      log: { info: () => {}, warn: () => {}, error: () => {} },
      limits: { pollMs: 700 }, // two cases wait for the time-out of a poll
    });
  let server = await open();
  return {
    options: { baseUrl: "http://localhost", apiKey: "tml-kit", baseModel },
    fetch: (wrapper) => (url, init) => {
      const request = new Request(url, init);
      const answer = (request: Request) => server.fetch(request);
      return wrapper === undefined ? answer(request) : wrapper(request, answer);
    },
    restart: async ({ loseData = false } = {}) => {
      await server.close();
      if (loseData) generation++;
      server = await open();
    },
    close: async () => {
      await server.close();
      await rm(root, { recursive: true, force: true });
    },
  };
}
