/** A server of the OpenEnv protocol for tests: the game "guess my number", and the ways in which a server can fail. Loopback, port 0. */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** What a message is answered with: a JSON value, text that is sent as it is, or nothing. */
export type Answer = (message: { type: string; data?: Record<string, unknown> }) => unknown;

export interface OpenEnvServer {
  readonly url: string;
  /** Messages that arrived, over both transports. */
  readonly received: { type: string; data?: Record<string, unknown> }[];
  /** Open WebSockets. */
  readonly sockets: Set<Socket>;
  close(): Promise<void>;
}

/** The game: a number from 1 to 9, three guesses. The seed is the number. */
export function guessingGame(): Answer {
  let [secret, guesses] = [0, 0];
  return ({ type, data = {} }) => {
    const observe = (hint: string, reward: number | null, done: boolean) => ({
      type: "observation",
      data: { observation: { hint, metadata: {} }, reward, done },
    });
    if (type === "reset") {
      secret = 1 + (Number(data["seed"] ?? 4) % 9);
      guesses = 0;
      return observe("Guess 1 to 9.", null, false);
    }
    if (type === "state") return { type: "state", data: { episode_id: "one", step_count: guesses } };
    if (type !== "step")
      return { type: "error", data: { message: `Unknown message type: ${type}`, code: "UNKNOWN_TYPE" } };
    guesses += 1;
    const guess = Number(data["guess"]);
    if (!Number.isInteger(guess))
      return { type: "error", data: { message: "Invalid message", code: "VALIDATION_ERROR" } };
    return guess === secret
      ? observe("Right.", 1, true)
      : observe(guess < secret ? "Higher." : "Lower.", 0, guesses === 3);
  };
}

/** @param newSession - makes what answers one WebSocket; over HTTP one is made for each request, as in the official package. */
export async function startOpenEnvServer(newSession: () => Answer): Promise<OpenEnvServer> {
  const received: OpenEnvServer["received"] = [];
  const sockets = new Set<Socket>();
  const http = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const type = (request.url ?? "").slice(1);
      const message = { type, data: (type === "step" ? body["action"] : body) as Record<string, unknown> };
      received.push(message);
      const answer = newSession()(message) as { type?: string; data?: unknown } | string | undefined;
      if (answer === undefined) return;
      const failed = typeof answer === "object" && answer.type === "error";
      response.writeHead(failed ? 422 : 200, { "content-type": "application/json" });
      response.end(typeof answer === "string" ? answer : JSON.stringify(answer.data));
    });
  });
  http.on("upgrade", (request: IncomingMessage, socket: Socket) => {
    if (request.url !== "/ws") return socket.end("HTTP/1.1 404 Not Found\r\n\r\n");
    const accept = createHash("sha1")
      .update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
    const answer = newSession();
    let rest = Buffer.alloc(0);
    socket.on("data", (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let frame = unmasked(rest); frame !== undefined; frame = unmasked(rest)) {
        rest = rest.subarray(frame.size);
        if (frame.opcode === 8) return socket.end(Buffer.from([0x88, 0]));
        const message = JSON.parse(frame.text) as { type: string; data?: Record<string, unknown> };
        received.push(message);
        if (message.type === "close") return socket.end(Buffer.from([0x88, 0]));
        const reply = answer(message);
        if (reply === "disconnect") return socket.destroy();
        if (reply !== undefined) socket.write(frameOf(typeof reply === "string" ? reply : JSON.stringify(reply)));
      }
    });
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    received,
    sockets,
    async close() {
      for (const socket of sockets) socket.destroy();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
}

/** The first frame of a client, which is masked; lengths up to 65,535. */
function unmasked(bytes: Buffer): { opcode: number; text: string; size: number } | undefined {
  if (bytes.length < 6) return undefined;
  const short = bytes.readUInt8(1) & 0x7f;
  const head = short === 126 ? 4 : 2;
  const length = short === 126 ? bytes.readUInt16BE(2) : short;
  const size = head + 4 + length;
  if (bytes.length < size) return undefined;
  const mask = bytes.subarray(head, head + 4);
  const payload = Buffer.from(bytes.subarray(head + 4, size).map((byte, i) => byte ^ (mask[i % 4] ?? 0)));
  return { opcode: bytes.readUInt8(0) & 0x0f, text: payload.toString(), size };
}

function frameOf(text: string): Buffer {
  const payload = Buffer.from(text);
  const head = Buffer.alloc(payload.length < 126 ? 2 : 10);
  head.writeUInt8(0x81, 0);
  if (payload.length < 126) head.writeUInt8(payload.length, 1);
  else {
    head.writeUInt8(127, 1);
    head.writeBigUInt64BE(BigInt(payload.length), 2);
  }
  return Buffer.concat([head, payload]);
}
