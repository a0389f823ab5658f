/**
 * The open connections by tenant. A connection belongs to the tenant whose key its last request had, and counts against that tenant's
 * share. Before its first valid key it counts for its remote address. When those connections have reached their limit, the one without a
 * request for the longest time is closed for the new one; a refusal would lock out all clients behind one proxy, which share an address.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { addressTenant, type Lease, TenantPool } from "./http/access/tenant-pool.ts";
import type { BodySource } from "./http/body/body.ts";
import type { Peer } from "./http/body/peer.ts";
import type { Limits } from "./limits.ts";

interface Connection {
  readonly address: string;
  lease: Lease;
  isIdentified: boolean;
  /** Number of requests in flight. */
  requests: number;
}

export class Connections {
  readonly #identified: TenantPool;
  readonly #unidentified: TenantPool;
  readonly #bySocket = new Map<Socket, Connection>();
  /** Unidentified connections without a request in flight, by address, longest idle first. */
  readonly #waiting = new Map<string, Set<Socket>>();

  constructor({ connections, unidentifiedConnections }: Limits) {
    const code = "too_many_connections";
    this.#identified = new TenantPool({ capacity: connections, unit: "connections", code });
    this.#unidentified = new TenantPool({ capacity: unidentifiedConnections, unit: "connections without a key", code });
  }

  /** Number of open connections. */
  get open(): number {
    return this.#bySocket.size;
  }

  /** Registers a new connection, or closes it if there is no room. */
  add(socket: Socket): void {
    const address = socket.remoteAddress ?? "unknown";
    const connection = {
      address,
      lease: this.#unidentified.lease(addressTenant(address)),
      isIdentified: false,
      requests: 0,
    };
    if (!take(connection.lease)) {
      const oldest = this.#longestWaiting(address);
      if (oldest !== undefined) {
        this.#remove(oldest);
        oldest.destroy();
      }
      if (oldest === undefined || !take(connection.lease)) {
        socket.destroy();
        return;
      }
    }
    this.#bySocket.set(socket, connection);
    this.#wait(socket, connection);
    socket.once("close", () => this.#remove(socket));
  }

  /** The peer of a request, which is in flight until its response is sent. */
  peerOf(incoming: IncomingMessage, outgoing: ServerResponse): Peer {
    const { socket } = incoming;
    const connection = this.#bySocket.get(socket);
    if (connection !== undefined) {
      connection.requests++;
      this.#stopWaiting(socket, connection);
      outgoing.once("close", () => {
        connection.requests--;
        if (this.#bySocket.has(socket)) this.#wait(socket, connection);
      });
    }
    return {
      address: connection?.address ?? "unknown",
      body: bodyOf(incoming),
      identified: (tenant) => {
        if (connection !== undefined && this.#bySocket.has(socket)) this.#identify(connection, tenant);
      },
      onSent: (run) => {
        if (outgoing.closed) run();
        else outgoing.once("close", run);
      },
    };
  }

  #identify(connection: Connection, tenant: string): void {
    if (connection.isIdentified) {
      connection.lease.moveTo(tenant);
      return;
    }
    const lease = this.#identified.lease(tenant);
    lease.take(1);
    connection.lease.release();
    connection.lease = lease;
    connection.isIdentified = true;
  }

  #wait(socket: Socket, connection: Connection): void {
    if (connection.isIdentified || connection.requests > 0) return;
    const waiting = this.#waiting.get(connection.address) ?? new Set();
    this.#waiting.set(connection.address, waiting.add(socket));
  }

  #stopWaiting(socket: Socket, { address }: Connection): void {
    const waiting = this.#waiting.get(address);
    if (waiting?.delete(socket) === true && waiting.size === 0) this.#waiting.delete(address);
  }

  /** The longest idle connection of this address; if it has none, of another address. */
  #longestWaiting(address: string): Socket | undefined {
    const [waiting] = this.#waiting.has(address) ? [this.#waiting.get(address)!] : this.#waiting.values();
    const [oldest] = waiting ?? [];
    return oldest;
  }

  #remove(socket: Socket): void {
    const connection = this.#bySocket.get(socket);
    if (connection === undefined) return;
    this.#bySocket.delete(socket);
    this.#stopWaiting(socket, connection);
    connection.lease.release();
  }
}

function take(lease: Lease): boolean {
  try {
    lease.take(1);
    return true;
  } catch {
    return false;
  }
}

/** Reads Node's stream directly: the web stream of a `Request` costs several times as much CPU time. */
const bodyOf =
  (incoming: IncomingMessage): BodySource =>
  ({ part, end, failed }) => {
    const data = ({ buffer, byteOffset, byteLength }: Buffer) => part(new Uint8Array(buffer, byteOffset, byteLength));
    const cut = () => failed(new Error("the connection was closed"));
    incoming.on("data", data).on("end", end).on("error", failed).on("close", cut);
    if (incoming.destroyed) queueMicrotask(cut);
    return () => {
      incoming.off("data", data).off("end", end).off("error", failed).off("close", cut);
      if (!incoming.readableEnded) incoming.pause();
    };
  };
