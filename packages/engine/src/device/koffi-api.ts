/**
 * Calls onnxruntime's C API through koffi, a foreign function interface with prebuilt binaries, so that nothing is compiled on a user's
 * machine. The library is the one of `onnxruntime-node`, so both share one copy per process.
 */
import type { LibraryHandle } from "koffi";
import { throughGateSync } from "../worker/native-call-gate.ts";
import { actions, apiVersion, makers, type OrtApi, OrtFailure, type Pointer, readers, releases } from "./ort-api.ts";

type NativeFunction = (...args: readonly unknown[]) => unknown;

const addressBytes = 8;
/** Keeps the handle alive: koffi unloads a library when its handle is collected, even while its functions are in use. */
const kept: LibraryHandle[] = [];

/** Addresses are bigints; koffi returns null for NULL. */
const asPointer = (value: unknown): Pointer => (value === null || value === undefined ? 0n : (value as Pointer));

/**
 * @param path - absolute path of the library
 * @param gate - every native call passes it, so that none begins while the process exits
 * @throws Error if koffi is not installed or the library cannot be loaded
 */
export async function loadOrtApi(path: string, gate?: Int32Array<SharedArrayBuffer>): Promise<OrtApi> {
  const koffi = await import("koffi");
  const enter = <T>(work: () => T): T => (gate ? throughGateSync(gate, work) : work());
  const library = enter(() => koffi.load(path));
  kept.push(library);
  const base = enter(() => asPointer(library.func("OrtGetApiBase", "void *", [])()));
  const member = (table: Pointer, place: number): Pointer =>
    asPointer(koffi.decode(table, place * addressBytes, "void *"));
  const at = (address: Pointer, result: string, takes: readonly string[]): NativeFunction =>
    koffi.decode(address, koffi.proto(result, [...takes])) as NativeFunction;
  const table = asPointer(enter(() => at(member(base, 0), "void *", ["uint32_t"])(apiVersion)));
  const version = enter(() => at(member(base, 1), "const char *", [])()) as string;
  if (table === 0n) throw new Error(`onnxruntime ${version} has no API version ${apiVersion}`);

  const bind = (place: number, result: string, takes: readonly string[]): NativeFunction => {
    const call = at(member(table, place), result, takes);
    return (...args) => enter(() => call(...args));
  };
  const errorCode = bind(readers.GetErrorCode.place, "int", readers.GetErrorCode.takes);
  const errorMessage = bind(readers.GetErrorMessage.place, "const char *", readers.GetErrorMessage.takes);
  const releaseStatus = bind(releases.ReleaseStatus.place, "void", releases.ReleaseStatus.takes);
  /** Wraps a function that returns a status: throws if the status is an error. */
  const checked = (name: string, { place, takes }: { place: number; takes: readonly string[] }): NativeFunction => {
    const call = bind(place, "void *", takes);
    return (...args) => {
      const status = asPointer(call(...args));
      if (status === 0n) return;
      const failure = new OrtFailure(name, errorCode(status) as number, errorMessage(status) as string);
      releaseStatus(status);
      throw failure;
    };
  };
  const onFirstUse = <Name extends string>(create: (name: Name) => NativeFunction) => {
    const known = new Map<Name, NativeFunction>();
    return (name: Name): NativeFunction => {
      const call = known.get(name) ?? create(name);
      known.set(name, call);
      return call;
    };
  };
  const maker = onFirstUse((name: keyof typeof makers) => {
    const { place, takes } = makers[name];
    return checked(name, { place, takes: [...takes, "_Out_ void **"] });
  });
  const action = onFirstUse((name: keyof typeof actions) => checked(name, actions[name]));
  const release = onFirstUse((name: keyof typeof releases) => bind(releases[name].place, "void", releases[name].takes));

  const result: [unknown] = [null];
  const made = (call: NativeFunction, args: readonly unknown[]): Pointer => {
    call(...args, result);
    return asPointer(result[0]);
  };
  const reader = (name: keyof typeof readers, ...outputs: readonly string[]): NativeFunction => {
    const { place, takes } = readers[name];
    return checked(name, { place, takes: [...takes, ...outputs] });
  };
  const typeAndShape = reader("GetTensorTypeAndShape", "_Out_ void **");
  const releaseShape = bind(
    readers.ReleaseTensorTypeAndShapeInfo.place,
    "void",
    readers.ReleaseTensorTypeAndShapeInfo.takes,
  );
  const elementType = reader("GetTensorElementType", "_Out_ int *");
  const dimensionsCount = reader("GetDimensionsCount", "_Out_ size_t *");
  const dimensions = reader("GetDimensions", "int64_t *", "size_t");
  const boundValues = reader("GetBoundOutputValues", "_Out_ void **", "_Out_ size_t *");
  const allocator = made(maker("GetAllocatorWithDefaultOptions"), []);

  return {
    version,
    make: (name, ...args) => made(maker(name), args),
    act: (name, ...args) => void action(name)(...args),
    release: (name, address) => void release(name)(address),
    boundOutputs: (binding) => {
      const [values, count]: [[unknown], [number]] = [[null], [0]];
      boundValues(binding, allocator, values, count);
      const list = asPointer(values[0]);
      const found = Array.from({ length: Number(count[0]) }, (_, i) => member(list, i));
      if (list !== 0n) action("AllocatorFree")(allocator, list);
      return found;
    },
    shapeOf: (value) => {
      const info = made(typeAndShape, [value]);
      const [type, count]: [[number], [number]] = [[0], [0]];
      elementType(info, type);
      dimensionsCount(info, count);
      const dims = new BigInt64Array(Number(count[0]));
      if (dims.length > 0) dimensions(info, dims, dims.length);
      releaseShape(info);
      return { elementType: type[0], dims: Array.from(dims, Number) };
    },
    view: (address, byteLength) => koffi.view(address, byteLength),
  };
}
