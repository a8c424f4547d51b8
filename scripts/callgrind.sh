#!/usr/bin/env bash
# Instructions per GET and per SET, by difference: a node under callgrind serves N requests, another
# one 2N; start, stop and filling cost the same in both, so (I(2N) - I(N)) / N is one request.
#   callgrind.sh [N] [PIPELINE]      default 20000 and 16
# The keyspace is of durability memory, so that no fsync is counted as waiting. Prints Markdown rows.
# `COMMAND='redis-server --port PORT --dir DIR'` measures another server.
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-20000}
pipeline=${2:-16}
port=$((20000 + RANDOM % 20000))
http=$((port + 1))
native=$((port + 2))
command=${COMMAND:-target/release/carillon start --dir DIR --resp 127.0.0.1:$port --native 127.0.0.1:$native --http 127.0.0.1:$http}
command -v valgrind >/dev/null || { echo "callgrind: please install valgrind" >&2; exit 1; }
[ -n "${COMMAND:-}" ] || cargo build --release --locked --quiet
work=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$work"' EXIT

# instructions TEST REQUESTS: all instructions of a node that serves so many requests.
instructions() {
  local test=$1 requests=$2 dir="$work/$1-$2"
  mkdir -p "$dir"
  local line=${command//DIR/$dir}
  valgrind --tool=callgrind --callgrind-out-file="$dir/out" ${line//PORT/$port} \
    >"$dir/log" 2>&1 </dev/null &
  pid=$!
  for _ in $(seq 600); do
    [ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ] && break
    kill -0 "$pid" || { cat "$dir/log" >&2; exit 1; }
    sleep 0.2
  done
  if [ -z "${COMMAND:-}" ]; then
    curl -sf -X PATCH -H 'content-type: application/json' -d '{"durability":"memory"}' \
      "http://127.0.0.1:$http/v1/keyspaces/0" >/dev/null
  fi
  redis-benchmark -p "$port" -t set -n 10000 -r 10000 -d 100 -c 1 -P 16 -q >/dev/null
  redis-benchmark -p "$port" -t "$test" -n "$requests" -r 10000 -d 100 -c 1 -P "$pipeline" -q \
    >/dev/null
  kill "$pid"
  wait "$pid" || true
  pid=
  awk '/^(totals|summary):/ { sum = $2 } END { print sum }' "$dir/out"
}

for test in get set; do
  once=$(instructions "$test" "$count")
  twice=$(instructions "$test" $((2 * count)))
  echo "| ${test^^} | pipeline $pipeline | $(((twice - once) / count)) instructions |"
done
