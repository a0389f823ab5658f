/**
 * The least an HTTP/1.1 client can be: kept sockets, one request at a time on each, bodies and answers with their lengths. The load
 * generator shares the machine with the server it measures, so what it costs itself counts against the result.
 */
import { connect, type Socket } from "node:net";

export interface RawAnswer {
  readonly status: number;
  readonly body: Buffer;
}

interface Line {
  readonly socket: Socket;
  received: Buffer;
  answer: { resolve: (answer: RawAnswer) => void; reject: (error: Error) => void } | undefined;
}

interface Waiting {
  readonly request: string;
  readonly resolve: (answer: RawAnswer) => void;
  readonly reject: (error: Error) => void;
}

export class RawClient {
  readonly #url: URL;
  readonly #limit: number;
  readonly #lines = new Set<Line>();
  readonly #idle: Line[] = [];
  readonly #waiting: Waiting[] = [];

  /** @param connections - how many sockets there may be; further requests wait for one. */
  constructor(url: string, connections: number) {
    this.#url = new URL(url);
    this.#limit = connections;
  }

  /** Sends a JSON text to a route. */
  post(path: string, body: string, accept = "application/json"): Promise<RawAnswer> {
    const request = `POST /api/v1/${path} HTTP/1.1\r\nHost: ${this.#url.host}\r\nX-API-Key: tml-load\r\nContent-Type: application/json\r\nAccept: ${accept}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
    return new Promise((resolve, reject) => {
      const line = this.#idle.pop() ?? (this.#lines.size < this.#limit ? this.#open() : undefined);
      if (line === undefined) this.#waiting.push({ request, resolve, reject });
      else this.#send(line, { request, resolve, reject });
    });
  }

  close(): void {
    for (const { socket } of this.#lines) socket.destroy();
  }

  #open(): Line {
    const socket = connect(Number(this.#url.port), this.#url.hostname).setNoDelay(true);
    const line: Line = { socket, received: Buffer.alloc(0), answer: undefined };
    this.#lines.add(line);
    socket.on("data", (chunk: Buffer) => {
      line.received = line.received.length === 0 ? chunk : Buffer.concat([line.received, chunk]);
      this.#read(line);
    });
    const failed = (error: Error) => {
      this.#lines.delete(line);
      line.answer?.reject(error);
    };
    socket.on("error", failed);
    socket.on("close", () => failed(new Error("the server closed the connection")));
    return line;
  }

  #send(line: Line, { request, resolve, reject }: Waiting): void {
    line.answer = { resolve, reject };
    line.socket.write(request);
  }

  #read(line: Line): void {
    const end = line.received.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = line.received.toString("latin1", 0, end);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? Number.NaN);
    const total = end + 4 + length;
    if (Number.isNaN(length)) line.socket.destroy(new Error(`an answer without a length: ${head}`));
    if (!(line.received.length >= total)) return;
    const { resolve } = line.answer!;
    const body = line.received.subarray(end + 4, total);
    line.received = Buffer.alloc(0); // one request at a time: nothing can follow
    line.answer = undefined;
    const next = this.#waiting.shift();
    if (next === undefined) this.#idle.push(line);
    else this.#send(line, next);
    resolve({ status: Number(head.slice(9, 12)), body });
  }
}
