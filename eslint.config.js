import tseslint from "typescript-eslint";

// Only what needs types; Biome does the rest.
const rules = [
  "no-floating-promises",
  "no-misused-promises",
  "await-thenable",
  "only-throw-error",
  "switch-exhaustiveness-check",
  "return-await",
];

export default tseslint.config(
  { ignores: ["dist", ".build"] },
  {
    files: ["src/**/*.ts"],
    extends: [tseslint.configs.base],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: Object.fromEntries(rules.map((rule) => [`@typescript-eslint/${rule}`, "error"])),
  },
);
