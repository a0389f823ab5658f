/**
 * The resources that one request holds, from its first byte to the last one of its response: a place among the requests in flight, and the
 * bytes of its body and of its response. They count for its remote address until a key identifies its tenant.
 */
import type { SideThread } from "../thread/side-thread.ts";
import { addressTenant, type Lease, TenantPool } from "./access/tenant-pool.ts";
import { bytesHeldBy, describeError, problemAnswer } from "./answers.ts";
import type { Api, Call } from "./api.ts";
import { type BodyBounds, type BodyReader, readBody } from "./body/body.ts";
import type { Peer } from "./body/peer.ts";
import { unexpected } from "./chat/answer-chat.ts";
import type { Surface } from "./chat/routes.ts";

/** One request's resources. */
export interface RequestInFlight {
  /** Counts the request among those in flight. @throws Refusal 429 */
  enter(): void;
  /** Counts the request for the tenant of its key. @throws Refusal 429 */
  moveTo(tenant: string): void;
  /** Reads the body. @throws Refusal 408, 413, 429 */
  read(bounds: BodyBounds): Promise<Uint8Array>;
  readonly onSent: Call["onSent"];
  /** Releases the body. The request's place and the response's bytes are released when the response is sent. */
  settle(response: Response, surface: Surface): Response;
}

export interface RequestsInFlight {
  of(request: Request, peer: Peer | undefined): RequestInFlight;
  /** Requests in flight. */
  readonly count: number;
  /** Bytes of received bodies and unsent responses. */
  readonly bytes: number;
}

/** @param thread - decompresses bodies */
export function createRequestsInFlight(
  { clock, limits }: Pick<Api, "clock" | "limits">,
  thread: SideThread,
): RequestsInFlight {
  const bodies = new TenantPool({
    capacity: limits.bodiesBytes,
    unit: "bytes of bodies and answers",
    code: "too_many_bytes",
  });
  const inFlight = new TenantPool({
    capacity: limits.concurrentRequests,
    unit: "requests",
    code: "too_many_requests",
  });

  const holdUntilSent = (response: Response, surface: Surface, tenant: string, onSent: Call["onSent"]): Response => {
    const bytes = bytesHeldBy(response);
    if (bytes === 0) return response;
    const lease = bodies.lease(tenant);
    try {
      lease.take(bytes);
    } catch (error) {
      return problemAnswer(describeError(error) ?? unexpected, surface);
    }
    onSent(() => lease.release());
    return response;
  };

  return {
    get count() {
      return inFlight.used;
    },
    get bytes() {
      return bodies.used;
    },
    of: (request, peer) => {
      let tenant = addressTenant(peer?.address ?? "in-process");
      const place: Lease = inFlight.lease(tenant);
      const body: Lease = bodies.lease(tenant);
      const reader: BodyReader = { source: peer?.body, lease: body, clock, pace: limits, thread };
      const onSent: Call["onSent"] = peer?.onSent ?? ((run) => run());
      return {
        onSent,
        enter: () => place.take(1),
        moveTo: (next) => {
          peer?.identified(next);
          place.moveTo(next);
          body.moveTo(next);
          tenant = next;
        },
        read: (bounds) => readBody(request, bounds, reader),
        settle: (response, surface) => {
          body.release();
          onSent(() => place.release());
          return holdUntilSent(response, surface, tenant, onSent);
        },
      };
    },
  };
}
