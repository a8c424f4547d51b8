#!/usr/bin/env bash
# The tests of all crates but `threads`. Those of the crate `carillon` start nodes and mostly wait;
# those of the other crates compute, and run beside them with what processor time is left.
set -uo pipefail
cd "$(dirname "$0")/.."
test=(cargo test --release --locked --quiet --no-fail-fast)
all=(--workspace --exclude threads)
"${test[@]}" "${all[@]}" --no-run || exit
others=$(mktemp)
trap 'rm -f "$others"' EXIT
nice -n 19 "${test[@]}" "${all[@]}" --exclude carillon >"$others" 2>&1 &
beside=$!
"${test[@]}" --package carillon
processes=$?
wait "$beside"
libraries=$?
cat "$others"
[ "$processes" = 0 ] && [ "$libraries" = 0 ]
