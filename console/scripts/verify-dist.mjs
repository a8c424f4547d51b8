// What a build must be: relative addresses, nothing from elsewhere, no inline script or style, small.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

/** All files together, compressed: issue 35's bound. */
const GZIP_BYTES_MAX = 400 * 1024;
const dist = new URL("../dist/", import.meta.url).pathname;

/** @returns {string[]} */
const files = (/** @type {string} */ dir) =>
  readdirSync(dir).flatMap((name) => {
    const path = join(dir, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });

const wrong = [];
let gzip = 0;
for (const path of files(dist)) {
  const bytes = readFileSync(path);
  gzip += gzipSync(bytes, { level: 9 }).length;
  const text = bytes.toString();
  const name = path.slice(dist.length);
  if (name.endsWith(".html")) {
    for (const [, url] of text.matchAll(/(?:src|href)="([^"]*)"/g)) {
      if (!url?.startsWith("./")) wrong.push(`${name}: ${url} is no relative address`);
    }
    if (/<script(?![^>]*\ssrc=)/.test(text)) wrong.push(`${name}: an inline script`);
    if (/<style|\sstyle=/.test(text)) wrong.push(`${name}: an inline style`);
    if (/\son[a-z]+=/.test(text)) wrong.push(`${name}: an inline handler`);
  }
  if (name.endsWith(".css") && /@import|url\(\s*['"]?(?:https?:|\/\/|data:)/.test(text)) {
    wrong.push(`${name}: loads from elsewhere`);
  }
  // Markup in scripts must set no style attribute: the policy would refuse it.
  if (name.endsWith(".js") && /<[a-z]+[^<>`]*\sstyle="/.test(text))
    wrong.push(`${name}: markup with an inline style`);
}
if (gzip > GZIP_BYTES_MAX)
  wrong.push(`the files take ${gzip} bytes compressed, and may take ${GZIP_BYTES_MAX}`);
for (const each of wrong) console.error(`dist: ${each}`);
if (wrong.length > 0) process.exit(1);
console.log(`dist: ${(gzip / 1024).toFixed(1)} KiB compressed`);
