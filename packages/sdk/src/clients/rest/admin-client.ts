/**
 * `AdminClient`: what needs a role in the organization: billing, storage and the audit log. Has a connection of its own and no session.
 */

import type {
  AuditEventType,
  AuditLogResponse,
  BillingUsageResponse,
  CurrentCheckpointStorageUsageResponse,
  QueryTime,
} from "@tinklet/wire/client";
import type { CallOptions } from "../../transport/transport.ts";
import type { ClientOptions } from "../options.ts";
import { RestClient } from "./rest-client.ts";

/**
 * Client for calls that need a role in the organization: billing and storage the admin or billing-admin role, the audit log the
 * admin role. {@link RestClient} has the same calls, which the official SDK deprecates there.
 *
 * @example
 * ```ts
 * const admin = new AdminClient(); // TINKER_API_KEY, TINKER_BASE_URL
 * const usage = await admin.getBillingUsage("2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
 * await admin.close();
 * ```
 */
export class AdminClient {
  readonly #rest: RestClient;

  /** Does no I/O; the first call connects. @throws {@link TinkerError} when there is no usable key or URL. */
  constructor(options: ClientOptions = {}) {
    this.#rest = new RestClient(options);
  }

  /** Usage between two times, by the hour. */
  getBillingUsage(
    startingOn: QueryTime,
    endingBefore: QueryTime,
    options: CallOptions = {},
  ): Promise<BillingUsageResponse> {
    return this.#rest.getBillingUsage(startingOn, endingBefore, options);
  }

  /** What checkpoints take up now, by project and person. Needs a server of 0.32 or newer. */
  getCurrentCheckpointStorageUsage(
    options: CallOptions & { readonly projectId?: string } = {},
  ): Promise<CurrentCheckpointStorageUsageResponse> {
    return this.#rest.getCurrentCheckpointStorageUsage(options);
  }

  /** Entries of the audit log. @param options.day - one day, as a Date (its UTC day) or `YYYY-MM-DD` */
  getAuditLog(
    options: CallOptions & { readonly eventType?: AuditEventType; readonly day?: Date | string } = {},
  ): Promise<AuditLogResponse> {
    return this.#rest.getAuditLog(options);
  }

  /** Closes its connections. */
  async close(): Promise<void> {
    await this.#rest.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
