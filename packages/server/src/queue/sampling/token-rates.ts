/** Tokens that each tenant trained on and sampled in the last hour, by interval. In memory only; recorded usage is in the store. */
import type { Clock } from "@tinklet/wire/clock";
import type { Usage } from "../../store/tables/usage.ts";

/** The kinds of usage that are counted. */
const counted = ["training", "sampling_sample", "sampling_prefill", "sampling_prefill_cached"] as const;
type Counted = (typeof counted)[number];

const intervalSeconds = 10;
const intervals = 360;

interface Ring {
  /** Number of the last written interval, counted from the epoch. */
  latest: number;
  readonly amounts: Readonly<Record<Counted, Float64Array>>;
}

export class TokenRateMeter {
  readonly #clock: Clock;
  readonly #rings = new Map<string, Ring>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(tenant: string, usage: Usage): void {
    const ring = this.#ring(tenant);
    for (const kind of counted) ring.amounts[kind][ring.latest % intervals]! += usage[kind] ?? 0;
  }

  /** Tokens per interval, oldest first. */
  read(tenant: string): { readonly intervalSeconds: number } & Readonly<Record<Counted, number[]>> {
    const ring = this.#ring(tenant);
    const read = (kind: Counted) =>
      Array.from({ length: intervals }, (_, i) => ring.amounts[kind][(ring.latest + 1 + i) % intervals]!);
    return {
      intervalSeconds,
      training: read("training"),
      sampling_sample: read("sampling_sample"),
      sampling_prefill: read("sampling_prefill"),
      sampling_prefill_cached: read("sampling_prefill_cached"),
    };
  }

  /** The tenant's ring buffer, with the intervals since its last write set to 0. */
  #ring(tenant: string): Ring {
    const now = Math.floor(this.#clock.now() / (intervalSeconds * 1000));
    let ring = this.#rings.get(tenant);
    if (ring === undefined) {
      const empty = () => new Float64Array(intervals);
      const amounts = {
        training: empty(),
        sampling_sample: empty(),
        sampling_prefill: empty(),
        sampling_prefill_cached: empty(),
      };
      ring = { latest: now, amounts };
      this.#rings.set(tenant, ring);
    }
    const passed = Math.min(intervals, Math.max(0, now - ring.latest));
    for (let i = 1; i <= passed; i++) for (const kind of counted) ring.amounts[kind][(ring.latest + i) % intervals] = 0;
    if (passed > 0 && passed === intervals) for (const kind of counted) ring.amounts[kind].fill(0);
    ring.latest = Math.max(ring.latest, now);
    return ring;
  }
}
