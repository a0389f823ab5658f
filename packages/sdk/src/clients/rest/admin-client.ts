/**
 * `AdminClient`: billing, storage and audit log of an organization, which need a role in it. Has its own connections and no session.
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
 * Client for calls that need a role in the organization: billing and storage need the admin or billing-admin role, the audit log the
 * admin role. {@link RestClient} has the same calls; the official SDK deprecates them there.
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

  /** Hourly usage between two times. */
  getBillingUsage(
    startingOn: QueryTime,
    endingBefore: QueryTime,
    options: CallOptions = {},
  ): Promise<BillingUsageResponse> {
    return this.#rest.getBillingUsage(startingOn, endingBefore, options);
  }

  /** Current checkpoint storage by project and user. Needs a server of 0.32. */
  getCurrentCheckpointStorageUsage(
    options: CallOptions & { readonly projectId?: string } = {},
  ): Promise<CurrentCheckpointStorageUsageResponse> {
    return this.#rest.getCurrentCheckpointStorageUsage(options);
  }

  /** Entries of the audit log. @param options.day - the day, as a Date (in UTC) or `YYYY-MM-DD` */
  getAuditLog(
    options: CallOptions & { readonly eventType?: AuditEventType; readonly day?: Date | string } = {},
  ): Promise<AuditLogResponse> {
    return this.#rest.getAuditLog(options);
  }

  /** Closes the client's connections. */
  async close(): Promise<void> {
    await this.#rest.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
