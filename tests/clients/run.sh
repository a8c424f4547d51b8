#!/usr/bin/env bash
# Runs every client against a server: run.sh HOST:PORT [use|verify] [RESULTS_FILE]
# `use` flushes the server and tries everything; `verify`, after a restart of the server, looks
# whether what `use` left is still there. Each client prints `ok NAME` or `FAIL NAME: why` lines.
set -uo pipefail
target=${1:?usage: run.sh HOST:PORT [use|verify] [RESULTS_FILE]}
phase=${2:-use}
results=${3:-$(mktemp)}
host=${target%:*}
port=${target##*:}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

if [ "$phase" = use ]; then redis-cli -h "$host" -p "$port" flushall >/dev/null; fi

# A client that dies without a word counts as one failure.
client() {
  local name=$1 output code
  shift
  output=$(timeout 180 "$@" 2>&1 </dev/null)
  code=$?
  if [ "$code" != 0 ] && ! grep -q '^FAIL ' <<<"$output"; then
    output+=$'\n'"FAIL $name ended with $code"
  fi
  sed 's/^/  /' <<<"$output"
  grep -E '^(ok|FAIL) ' <<<"$output" >>"$results"
}

client redis-cli "$here/redis_cli.sh" "$host" "$port" "$phase"
client redis-py "$root/target/venv/bin/python" "$here/redis_py.py" "$host" "$port" "$phase"
client ioredis node "$here/ioredis/test.js" "$host" "$port" "$phase"
client go-redis "$root/target/clients/goredis" "$host" "$port" "$phase"
if [ "$phase" = use ]; then
  client redis-benchmark "$here/redis_benchmark.sh" "$host" "$port"
fi
! grep -q '^FAIL ' "$results"
