/** The layer table of AGENTS.md, enforced. */
const rules = [
  { name: "no-circular", from: {}, to: { circular: true } },
  {
    name: "capture-is-a-leaf",
    from: { path: "^src/capture" },
    to: {
      path: "^src/(?!capture/)|^(node:)?(http|http2|https|net|worker_threads)$|node_modules/(fastify|undici|piscina|comlink|pino|tokenizers)",
    },
  },
  {
    name: "runtime-knows-no-rl",
    from: { path: "^src/runtime" },
    to: {
      path: "^src/(?!runtime/)|^(node:)?(http|http2|https)$|node_modules/(better-sqlite3|fastify|undici|tokenizers)",
    },
  },
  {
    name: "embedded-policy-is-a-leaf",
    from: { path: "^src/embedded-policy" },
    to: {
      path: "^src/(?!embedded-policy/)|^(node:)?(http|http2|https|net|worker_threads)$|node_modules/(fastify|undici|piscina|comlink|pino|better-sqlite3|zod)",
    },
  },
  {
    name: "mock-engine-knows-no-client",
    from: { path: "^src/mock-engine" },
    to: { path: "^src/(?!mock-engine/|embedded-policy/index\\.ts$)|node_modules/(fastify|undici)" },
  },
  {
    name: "clients-know-no-mock-engine",
    from: { path: "^src/(actors|orchestrator|runtime|capture|embedded-policy)" },
    to: { path: "^src/mock-engine" },
  },
  {
    name: "layers-through-their-index",
    from: { path: "^src/(actors|orchestrator)" },
    to: { path: "^src/(runtime|capture|embedded-policy)/(?!index\\.ts$)" },
  },
  {
    name: "actors-through-their-index",
    from: { path: "^src/orchestrator" },
    to: { path: "^src/actors/(?!index\\.ts$)" },
  },
  {
    name: "actors-know-no-orchestrator",
    from: { path: "^src/actors" },
    to: { path: "^src/(orchestrator|cli|index)" },
  },
  {
    name: "actor-folders-apart",
    from: { path: "^src/actors/([^/]+)/" },
    to: {
      path: "^src/actors/([^/]+)/",
      pathNot: "^src/actors/$1/",
      dependencyTypesNot: ["type-only"],
    },
  },
  {
    name: "cli-uses-the-public-face",
    from: { path: "^src/cli" },
    to: { path: "^src/(?!cli/|index\\.ts$)" },
  },
  { name: "not-to-unresolvable", from: {}, to: { couldNotResolve: true } },
];
module.exports = {
  forbidden: rules.map((rule) => ({ severity: "error", ...rule })),
  options: {
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default", "types"],
    },
  },
};
