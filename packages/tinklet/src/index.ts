/** `tinklet`: the SDK. The modules are those of `@tinklet/sdk`, so that a class is the same class under both names. */
export * from "@tinklet/sdk";
