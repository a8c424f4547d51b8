#!/usr/bin/env bash
# redis-cli as people use it: redis_cli.sh HOST PORT use|verify
set -uo pipefail
host=$1 port=$2 phase=$3
fails=0
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cli() { redis-cli -h "$host" -p "$port" "$@"; }

# check NAME EXPECTED ACTUAL
check() {
  if [ "$2" = "$3" ]; then
    echo "ok redis-cli $1"
  else
    fails=1
    echo "FAIL redis-cli $1: expected '${2:0:200}', got '${3:0:200}'"
  fi
}

if [ "$phase" = verify ]; then
  check "value after restart" "kept" "$(cli get cli:kept)"
  check "expiry after restart" "1" "$([ "$(cli ttl cli:expiring)" -gt 100000 ] && echo 1)"
  check "deleted stays deleted" "0" "$(cli exists cli:deleted)"
  check "other keyspace after restart" "three" "$(cli -n 3 get cli:kept)"
  check "big value after restart" "10485760" "$(cli strlen cli:big)"
  exit $fails
fi

check "ping" "PONG" "$(cli ping)"
check "set" "OK" "$(cli set cli:a 'hello world')"
check "get" "hello world" "$(cli get cli:a)"
check "get in RESP3" "hello world" "$(cli -3 get cli:a)"
check "nil" '(nil)' "$(cli --no-raw get cli:none)"
check "nil in RESP3" '(nil)' "$(cli -3 --no-raw get cli:none)"
check "integer" "(integer) 1" "$(cli --no-raw incr cli:n)"
check "error" "ERR value is not an integer or out of range" "$(cli incr cli:a | head -1)"
check "unknown command" "ERR unknown command 'nosuch', with args beginning with: 'x' " \
  "$(cli nosuch x | head -1)"
check "stdin as last argument" "from stdin" "$(printf 'from stdin' | cli -x set cli:x >/dev/null; cli get cli:x)"
check "commands on stdin" $'OK\n1\n2' "$(printf 'set cli:s 0\nincr cli:s\nincr cli:s\n' | cli)"
check "binary" '"\x00\xff\r\n"' "$(printf '\x00\xff\r\n' | cli -x set cli:bin >/dev/null; cli --no-raw get cli:bin)"
check "select" $'OK\nthree' "$(printf 'select 3\nget cli:kept\n' | { cli -n 3 set cli:kept three >/dev/null; cli; })"
check "keyspaces apart" "" "$(cli -n 4 get cli:kept)"
for i in $(seq 1 300); do echo "set cli:scan:$i $i"; done | cli >/dev/null
check "scan" "300" "$(cli --scan --pattern 'cli:scan:*' | sort -u | wc -l)"
check "bigkeys" "1" "$(cli --bigkeys 2>/dev/null | grep 'Biggest string found' | tail -1 | wc -l)"
check "memkeys" "1" "$(cli --memkeys 2>/dev/null | grep -c '^Biggest string found .* has [0-9]* bytes')"
check "memory usage" "1" "$([ "$(cli memory usage cli:a)" -gt 16 ] && echo 1)"
check "hotkeys" "1" "$(cli --hotkeys 2>&1 | grep -c '^Error: ERR An LFU maxmemory policy is not selected')"
# These go on until they are stopped.
stat=$(timeout 4 stdbuf -oL redis-cli -h "$host" -p "$port" --stat -i 1 2>&1)
check "stat" "1" "$(awk '/^[0-9]+ /{if ($1 > 300 && $2 ~ /^[0-9.]+[BKMG]$/) ok = 1} END {print ok + 0}' <<<"$stat")"
latency=$(timeout 5 redis-cli -h "$host" -p "$port" --latency -i 1 2>&1)
check "latency" "1" "$(grep -cE '^[0-9]+ [0-9]+ [0-9.]+ [0-9]+' <<<"$latency" | awk '{print ($1 > 0)}')"
history=$(timeout 5 redis-cli -h "$host" -p "$port" --raw --latency-history -i 1 2>&1)
check "latency-history" "1" "$(grep -cE '^[0-9]+ [0-9]+ [0-9.]+ [0-9]+' <<<"$history" | awk '{print ($1 > 0)}')"
check "slowlog" "1" "$(cli slowlog len | grep -cE '^[0-9]+$')"
check "commandstats" "1" "$(cli info commandstats | grep -c '^cmdstat_memory|usage:calls=')"
for i in $(seq 1 1000); do
  printf '*3\r\n$3\r\nSET\r\n$%d\r\ncli:pipe:%d\r\n$1\r\nx\r\n' "$((9 + ${#i}))" "$i"
done >"$dir/pipe"
check "--pipe" "errors: 0, replies: 1000" "$(cli --pipe <"$dir/pipe" | tail -1)"
head -c 10485760 /dev/urandom >"$dir/big"
check "10 MiB in" "OK" "$(cli -x set cli:big <"$dir/big")"
check "10 MiB out" "$(cksum <"$dir/big")" "$(cli get cli:big | head -c 10485760 | cksum)"
check "info" "1" "$(cli info server | grep -c '^redis_version:7.0.15')"
check "expire" "1" "$(cli set cli:expiring x >/dev/null; cli expire cli:expiring 200000)"
cli set cli:soon x px 50 >/dev/null
sleep 0.2
check "expired" "" "$(cli get cli:soon)"
check "deleted" "1" "$(cli set cli:deleted x >/dev/null; cli del cli:deleted)"
check "kept" "OK" "$(cli set cli:kept kept)"
exit $fails
