/** Host arrays that rarely change (rotary tables, counts), uploaded once and kept on a device by name. */
import type { Device, DeviceValue } from "../runtime/device.ts";
import type { Value } from "../runtime/runtime.ts";

export class ResidentTables {
  readonly #device: Device;
  readonly #known = new Map<string, { readonly data: Value["data"]; readonly value: DeviceValue }>();

  constructor(device: Device) {
    this.#device = device;
  }

  /** The table of this name on the device; uploaded again if its array changed. */
  async get(name: string, table: Value): Promise<DeviceValue> {
    const known = this.#known.get(name);
    if (known?.data === table.data) return known.value;
    const value = await this.#device.upload(table);
    known?.value.release();
    this.#known.set(name, { data: table.data, value });
    return value;
  }

  release(): void {
    for (const { value } of this.#known.values()) value.release();
    this.#known.clear();
  }
}
