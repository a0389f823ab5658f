// A TLS server for bench/http2.mjs: HTTP/1.1 and HTTP/2 on one port. `/poll` answers after 200 ms, anything else at once.
import { createSecureServer } from "node:http2";

const [key, cert] = [process.argv[2], process.argv[3]];
const { readFileSync } = await import("node:fs");
let sockets = 0;
const answer = Buffer.from(
  JSON.stringify({ type: "try_again", request_id: "r", queue_state: "active", pad: "x".repeat(200) }),
);
const server = createSecureServer(
  { key: readFileSync(key), cert: readFileSync(cert), allowHTTP1: true, settings: { maxConcurrentStreams: 250 } },
  (request, response) => {
    request.resume();
    request.on("end", () => {
      if (request.url === "/sockets") return response.end(String(sockets));
      const send = () => response.writeHead(200, { "content-type": "application/json" }).end(answer);
      if (request.url === "/poll") setTimeout(send, 200);
      else send();
    });
  },
);
server.on("secureConnection", (socket) => {
  sockets++;
  socket.on("close", () => sockets--);
});
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }));
