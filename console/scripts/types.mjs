// Writes src/api/schema.ts from the document of the HTTP API, docs/openapi.json. `--check` writes nothing, and
// fails if it is another.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import openapi, { astToString } from "openapi-typescript";

const from = new URL("../../docs/openapi.json", import.meta.url);
const to = new URL("../src/api/schema.ts", import.meta.url);
const HEAD = "// Made by `npm run types` from docs/openapi.json. Not to be changed by hand.\n\n";

const text = HEAD + astToString(await openapi(from, { arrayLength: true, silent: true }));
const isCurrent = existsSync(to) && readFileSync(to, "utf8") === text;
if (!process.argv.includes("--check")) {
  if (!isCurrent) writeFileSync(to, text);
} else if (!isCurrent) {
  console.error("src/api/schema.ts is not what docs/openapi.json gives: npm run types, and commit it");
  process.exit(1);
}
