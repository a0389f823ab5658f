/** `tinklet/wire`: what the bytes are. The modules are those of `@tinklet/wire`. */
export * from "@tinklet/wire";
