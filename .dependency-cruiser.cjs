// The arrows of the house: @tinklet/wire <- @tinklet/sdk (transport <- futures <- clients) <- tinklet (the command);
// server: http -> queue -> engine -> store. A module imports only from its left.
const layer = (name, from, forbidden) => ({
  name,
  severity: "error",
  from: { path: from, pathNot: "\\.test\\.ts$" },
  to: { path: forbidden },
});
const sdk = (dir) => `^packages/sdk/src/${dir}`;

module.exports = {
  forbidden: [
    {
      name: "no-circular",
      severity: "error",
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ["type-only", "dynamic-import"] } },
    },
    layer(
      "leaves-import-nothing",
      "^packages/wire/src/(abort|clock|entropy|closest|describe|errors|omit-undefined)\\.ts$",
      "^packages/wire/src/(autodiff|messages|proto|routes|schema|values)/",
    ),
    layer("wire-stands-alone", "^packages/wire/src", "^packages/(?!wire/)"),
    layer("transport-is-below", sdk("transport/"), sdk("(futures|clients)/")),
    layer("futures-are-below", sdk("futures/"), sdk("clients/")),
    layer(
      "models-are-below",
      "^packages/models/src",
      "^packages/(wire|sdk|tinklet|engine|server|cookbook|ai|studio|conformance|browser)/",
    ),
    layer("sdk-knows-no-server", "^packages/sdk/src", "^packages/(?!sdk/|wire/|models/)"),
    layer("engine-stands-alone", "^packages/engine/src", "^packages/(?!engine/|models/)"),
    layer("provider-speaks-the-sdk", "^packages/ai/src/(?!testing/)", "^packages/(engine|server|base-model)/"),
    {
      name: "engine-core-without-node",
      comment: "a browser build of the engine must stay one step away",
      severity: "error",
      from: {
        path: "^packages/engine/src/((graph|onnx|runtime|model|train|sample|constrain|browser)/|(core|create-core|memory-plan|next-turn)\\.ts)",
        pathNot: "\\.test\\.ts$",
      },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "engine-core-takes-light-entries",
      comment: "the entry . of @tinklet/models needs Node; its types do not",
      severity: "error",
      from: {
        path: "^packages/engine/src/((graph|onnx|runtime|model|train|sample|constrain|browser)/|(core|create-core|memory-plan|next-turn)\\.ts)",
        pathNot: "\\.test\\.ts$",
      },
      to: { path: "^packages/models/src/index\\.ts$", dependencyTypesNot: ["type-only"] },
    },
    {
      name: "light-entries-without-node",
      comment:
        "tokenizer, chat, config and bytes of @tinklet/models work in a browser; a test bundles those of engine and server",
      severity: "error",
      from: { path: "^packages/models/src/(tokenizer|chat|config|bytes)/index\\.ts$" },
      to: {
        path: "^(node:)?(fs|fs/promises|path|os|crypto|module|url|timers/promises|worker_threads|process)$",
        reachable: true,
      },
    },
    {
      name: "browser-without-node",
      comment: "@tinklet/browser runs in a page, and takes the entries without Node; types may come from others",
      severity: "error",
      from: { path: "^packages/browser/src/(?!testing/)", pathNot: "\\.test\\.ts$" },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "browser-takes-light-entries",
      severity: "error",
      from: { path: "^packages/browser/src/(?!testing/)", pathNot: "\\.test\\.ts$" },
      to: { path: "^packages/(models|engine|server)/src/index\\.ts$", dependencyTypesNot: ["type-only"] },
    },
    layer("server-queue-is-below", "^packages/server/src/queue/", "^packages/server/src/(http/|serve|server|local)"),
    layer("server-store-is-below", "^packages/server/src/store/", "^packages/server/src/(http|queue)/"),
    layer("server-knows-no-studio", "^packages/server/src", "^packages/studio/"),
    {
      name: "studio-page-without-node",
      comment: "the page runs in a browser, and speaks by the wire alone",
      severity: "error",
      from: { path: "^packages/studio/src/page/", pathNot: "\\.test\\.ts$" },
      to: { dependencyTypes: ["core"] },
    },
    layer("server-speaks-the-wire", "^packages/server/src/(?!testing/)", "^packages/(sdk|tinklet)/"),
    layer("studio-speaks-the-wire", "^packages/studio/src/(?!testing/)", "^packages/(sdk|tinklet)/"),
    {
      name: "no-node-on-the-sdk-path",
      comment: 'import "@tinklet/sdk" must work in a browser: files named *.node.ts may use node:, nothing else',
      severity: "error",
      from: { path: "^packages/sdk/src", pathNot: "(\\.node\\.ts|\\.test\\.ts)$|/testing/" },
      to: { dependencyTypes: ["core"] },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "(dist|node_modules)/" },
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "types", "default"] },
  },
};
