/**
 * `@tinklet/sdk/testing`, and `tinklet/testing`: a scripted Tinker server for tests. The SDK itself does not import it.
 */
export { FakeClock } from "@tinklet/wire/testing";
export { anyOf, type Delivery, type Fault, type FaultScript, faultsInOrder, type StubCall } from "./faults.ts";
export type { StubAnswer } from "./stub-answer.ts";
export { listen, type StubListener } from "./stub-listener.node.ts";
export { stubLogprob } from "./stub-model.ts";
export { type StubOptions, type StubRequest, StubServer, stubToken } from "./stub-server.ts";
