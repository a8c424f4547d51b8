#!/usr/bin/env bash
# redis-benchmark, short: redis_benchmark.sh HOST PORT. Rates are not judged, only that it works.
set -uo pipefail
host=$1 port=$2
fails=0

try() {
  local name=$1 output code
  shift
  output=$(timeout 60 redis-benchmark -h "$host" -p "$port" --csv "$@" 2>&1)
  code=$?
  if [ "$code" = 0 ] && ! grep -qi error <<<"$output" && [ "$(grep -c '^"' <<<"$output")" -ge 2 ]; then
    echo "ok redis-benchmark $name"
  else
    fails=1
    echo "FAIL redis-benchmark $name: $code ${output:0:300}"
  fi
}

try "get set" -n 20000 -c 50 -d 100 -r 10000 -t set,get
try "pipelined" -n 50000 -c 50 -d 100 -r 10000 -P 16 -t set,get
try "inline and bulk ping" -n 5000 -t ping
try "incr mset" -n 5000 -r 1000 -t incr,mset
try "RESP3" -3 -n 5000 -t set,get
try "threads" --threads 2 -n 20000 -r 1000 -t set,get
try "any command" -n 5000 -r 1000 setex key:__rand_int__ 1000 value
exit $fails
