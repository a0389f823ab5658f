/** A Hugging Face Hub on a loopback port, as far as single files need one; tests look at what it was asked. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface HubRequest {
  readonly path: string;
  readonly authorization: string | undefined;
}

/** Answers requests with a function, remembers them, and stops when disposed of. */
export async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const requests: HubRequest[] = [];
  const server: Server = createServer((request, response) => {
    requests.push({ path: request.url ?? "", authorization: request.headers.authorization });
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A hub with one repository at one commit. */
export function fakeHub(id: string, commit: string, files: Readonly<Record<string, string | undefined>>) {
  return serve((request, response) => {
    const match = new RegExp(`^/${id}/resolve/([^/]+)/([^/]+)$`).exec(request.url ?? "");
    if (match === null) return void response.writeHead(404, { "x-error-code": "RepoNotFound" }).end();
    const text = files[match[2] as string];
    response.setHeader("x-repo-commit", commit);
    if (text === undefined) return void response.writeHead(404, { "x-error-code": "EntryNotFound" }).end();
    response.writeHead(200, { "content-type": "text/plain" }).end(text);
  });
}
