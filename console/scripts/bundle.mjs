// Writes bundle/ from dist/: the files that the program embeds, each compressed. It is committed, so that
// the program is built without Node.js. `--check` writes nothing, and fails if bundle/ is not what dist/ gives.
//
// Contents are compared, not compressed bytes: another version of zlib may compress otherwise.
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const bundle = fileURLToPath(new URL("../bundle/", import.meta.url));
const ENDING = ".gz";

/** Paths of all files below a folder, from there on.
 * @returns {string[]} */
function files(/** @type {string} */ folder, below = "") {
  return readdirSync(join(folder, below)).flatMap((name) => {
    const path = below === "" ? name : `${below}/${name}`;
    return statSync(join(folder, path)).isDirectory() ? files(folder, path) : [path];
  });
}

/** What bundle/ holds: path and content of each file, as dist/ has it. */
function bundled() {
  /** @type {Map<string, Buffer>} */
  const found = new Map();
  for (const path of files(bundle)) {
    if (!path.endsWith(ENDING)) throw new Error(`bundle/${path} is not compressed`);
    found.set(path.slice(0, -ENDING.length), gunzipSync(readFileSync(join(bundle, path))));
  }
  return found;
}

/** How bundle/ differs from dist/, in words. */
function differences() {
  const wrong = [];
  const found = bundled();
  for (const path of files(dist)) {
    const content = found.get(path);
    if (!content) wrong.push(`${path} is missing`);
    else if (!content.equals(readFileSync(join(dist, path)))) wrong.push(`${path} is another`);
    found.delete(path);
  }
  for (const path of found.keys()) wrong.push(`${path} should not be there`);
  return wrong;
}

mkdirSync(bundle, { recursive: true });
const wrong = differences();
if (process.argv.includes("--check")) {
  for (const each of wrong) console.error(`bundle: ${each}`);
  if (wrong.length > 0) {
    console.error("console/bundle is not what the sources give: run make build, and commit it");
    process.exit(1);
  }
} else if (wrong.length > 0) {
  rmSync(bundle, { recursive: true });
  for (const path of files(dist)) {
    const to = join(bundle, path + ENDING);
    mkdirSync(dirname(to), { recursive: true });
    // Its header has neither a name nor a time.
    writeFileSync(to, gzipSync(readFileSync(join(dist, path)), { level: 9 }));
  }
  console.log("bundle: written anew");
}
