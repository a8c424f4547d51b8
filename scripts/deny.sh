#!/usr/bin/env bash
# Licences, advisories, sources and duplicates of all dependencies, by deny.toml.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-deny >/dev/null || cargo install --locked --quiet cargo-deny
cargo deny --all-features check
