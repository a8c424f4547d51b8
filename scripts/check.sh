#!/usr/bin/env bash
# What to run before each commit: format, clippy, unit tests and golden scripts, in the profile of
# scripts/test.sh, so that neither compiles anew what the other has compiled. Ends at the first
# failure. What starts processes or plays many seeds is left to `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

step() {
  local title=$1 start=$SECONDS
  shift
  echo "== $title"
  "$@" || { echo "== $title: FAILED after $((SECONDS - start)) s"; exit 1; }
  echo "== $title: ok in $((SECONDS - start)) s"
}

step "format" cargo fmt --all --check
step "clippy" cargo clippy --release --locked --quiet --workspace --all-targets -- -D warnings
# Scripts are listed when their runners are compiled: else a new one would not be run.
touch crates/*/tests/golden/main.rs crates/storage/src/engine/conformance/golden.rs
step "unit tests, golden scripts, layers" cargo test --release --locked --quiet --workspace \
  --exclude threads --lib --bins --test golden --test layers
echo "== all ok in $SECONDS s"
