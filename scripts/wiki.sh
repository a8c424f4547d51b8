#!/usr/bin/env bash
# Starts a cluster of three nodes and the wiki on it, until Ctrl-C. The wiki's first start loads its
# example. Both keep what they have in DIR (./carillon-wiki).
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${DIR:-carillon-wiki}
listen=${LISTEN:-127.0.0.1:8090}
cargo build --release --locked --quiet -p carillon -p wiki

target/release/carillon dev --dir "$dir" &
cluster=$!
trap 'kill "$cluster" 2>/dev/null; wait "$cluster" 2>/dev/null || true' EXIT

for _ in $(seq 300); do
  kill -0 "$cluster" 2>/dev/null || { echo "the cluster has ended"; exit 1; }
  curl -sf -o /dev/null http://127.0.0.1:7480/health/ready && break
  sleep 0.2
done
target/release/wiki serve --listen "$listen" --import examples/wiki/example.xml \
  --resp 127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381 \
  --http 127.0.0.1:7480,127.0.0.1:7481,127.0.0.1:7482
