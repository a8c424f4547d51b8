import svelte from "eslint-plugin-svelte";
import ts from "typescript-eslint";

export default ts.config(
  { ignores: ["dist/", "node_modules/", "tests/data/", "src/api/schema.ts"] },
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  {
    languageOptions: { parserOptions: { extraFileExtensions: [".svelte"] } },
    rules: {
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/switch-exhaustiveness-check": "off",
      eqeqeq: "error",
      "no-console": "error",
      "max-lines": ["error", { max: 500, skipBlankLines: false }],
      "svelte/no-inline-styles": "error",
      "svelte/no-at-html-tags": "error",
      // Sets here are values that are made, used and thrown away.
      "svelte/prefer-svelte-reactivity": "off",
    },
  },
  { files: ["**/*.svelte", "**/*.svelte.ts"], languageOptions: { parserOptions: { parser: ts.parser } } },
  { files: ["scripts/**", "tests/browser/**"], rules: { "no-console": "off" } },
);
