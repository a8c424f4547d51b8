#!/usr/bin/env bash
# Builds console/bundle, which the program embeds, where Node.js and console/node_modules are, and
# the sources have changed since. Elsewhere the committed one is taken.
set -euo pipefail
cd "$(dirname "$0")/../console"
NODE_MAJOR_MIN=20

major=$(node --print 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
if [ "$major" -lt "$NODE_MAJOR_MIN" ] || ! command -v npm >/dev/null || [ ! -d node_modules ]; then
  exit 0
fi
# Of what goes into the bundle, and of the bundle itself.
state() {
  find src public bundle index.html package.json package-lock.json *.config.* tsconfig.json \
    scripts/bundle.mjs -type f -print0 | LC_ALL=C sort -z | xargs -0 cksum | cksum
}
[ "$(state)" = "$(cat node_modules/.bundled 2>/dev/null)" ] && exit 0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! npm run --silent bundle >"$log" 2>&1; then
  cat "$log" >&2
  echo "bundle: the console cannot be built. If packages are missing: make setup" >&2
  exit 1
fi
state >node_modules/.bundled
