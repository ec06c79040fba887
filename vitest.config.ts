import { defineConfig } from "vitest/config";

const reporters = ["default", "./test/support/plain-summary.ts"];

export default defineConfig({
  test: {
    reporters,
    // Real CLIs and whole-process kills share the cores: two files at a time keep deadlines honest.
    maxWorkers: 2,
    // The default, 1 s, is shorter than a busy machine's hiccup.
    expect: { poll: { timeout: 20_000 } },
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["test/unit/**/*.test.ts"],
          pool: "forks",
          testTimeout: 120_000,
          hookTimeout: 60_000,
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
        },
      },
    ],
  },
});
