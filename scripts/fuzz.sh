#!/usr/bin/env bash
# Runs every fuzz target for so many seconds (default 20), from the committed seeds.
# Needs cargo-fuzz and a nightly toolchain; installs cargo-fuzz if it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz
for target in $(cargo fuzz list); do
  echo "== fuzz $target for $seconds s"
  mkdir -p "fuzz/corpus/$target"
  seeds=()
  [ -d "fuzz/seeds/$target" ] && seeds=("fuzz/seeds/$target")
  cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "${seeds[@]}" -- \
    -max_total_time="$seconds" -rss_limit_mb=2048
done
