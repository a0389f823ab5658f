/** `tinklet/testing`: a scripted Tinker server for tests. The modules are those of `@tinklet/sdk/testing`. */
export * from "@tinklet/sdk/testing";
