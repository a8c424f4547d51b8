#!/usr/bin/env bash
# Runs every fuzz target for so many seconds (default 20), beginning with the committed corpus.
# What it finds on the way goes to target/fuzz-corpus; a crash is kept in fuzz/artifacts and ends
# the run. Needs a nightly toolchain; installs cargo-fuzz if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz
for target in $(cargo +nightly fuzz list); do
  echo "== fuzz $target for $seconds s"
  mkdir -p "target/fuzz-corpus/$target" "fuzz/corpus/$target"
  cargo +nightly fuzz run "$target" "target/fuzz-corpus/$target" "fuzz/corpus/$target" -- \
    -max_total_time="$seconds" -rss_limit_mb=2048
done
