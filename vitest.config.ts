import { defineConfig } from "vitest/config";

const reporters = ["default", "./test/support/plain-summary.ts"];

export default defineConfig({
  test: {
    reporters,
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          pool: "forks",
          testTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: {
          name: "integration",
          include: ["test/integration/**/*.test.ts"],
          pool: "forks",
          testTimeout: 120_000,
          hookTimeout: 60_000,
          // Real CLIs and whole-process kills share two cores: one file at a time keeps deadlines honest.
          fileParallelism: false,
        },
      },
    ],
    typecheck: { include: ["test/types/**/*.test-d.ts"], tsconfig: "tsconfig.test.json" },
  },
});
