#!/usr/bin/env bash
# All checks of the console: types, lint, format, unit tests, the build, that bundle/ is what it
# gives, and the built page in Chromium, on a recorded cluster and on a real one, whose nodes serve
# it. scripts/setup.sh installs what it needs.
# The last line sums up: `console: N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/../console"
passed=0
failed=0
log=$(mktemp)
# What failed, to be told again at the end: who runs this may show the last lines alone.
named=$(mktemp)
trap 'rm -f "$log" "$named"' EXIT

# names LOG: the lines of a log that name a failure, each once.
names() {
  grep -E 'FAILED|FAIL |AssertionError|[Ee]rror|✗|×' "$1" | awk '!seen[$0]++' | tail -n 12
}

# count TITLE PATTERN COMMAND…: PATTERN finds `N passed` in the output; a failure counts as one.
count() {
  local title=$1 pattern=$2 code number
  shift 2
  "$@" >"$log" 2>&1
  code=$?
  number=$(grep -oE "$pattern" "$log" | tail -n 1 | grep -oE '[0-9]+ passed' | grep -oE '[0-9]+')
  passed=$((passed + ${number:-$((code == 0 ? 1 : 0))}))
  if [ "$code" != 0 ]; then
    failed=$((failed + 1))
    echo "== $title: FAILED"
    tail -n 60 "$log"
    { echo "FAILED: $title"; names "$log"; } >>"$named"
  else
    echo "== $title: ok"
  fi
  return "$code"
}

count "types, lint, format" "^no such line$" npm run --silent check
count "types of the API are current" "^no such line$" node scripts/types.mjs --check
count "unit tests" "Tests +[0-9]+ passed" env NO_COLOR=1 npm run --silent test
if count "build" "^no such line$" npm run --silent build; then
  count "the bundle is current" "^no such line$" node scripts/bundle.mjs --check
  count "browser" "^console browser: [0-9]+ passed" npm run --silent browser
fi
cat "$named"
echo "console: $passed passed, $failed failed"
[ "$failed" = 0 ]
