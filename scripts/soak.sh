#!/usr/bin/env bash
# Random tests for HOURS hours (default 1), with new seeds each time: simulator, kill -9 rounds,
# command streams beside redis-server, bad input. Stops at the first failure; seeds are printed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
python=target/venv/bin/python
until_second=$((SECONDS + ${1:-1} * 3600))
round=0
while [ "$SECONDS" -lt "$until_second" ]; do
  round=$((round + 1))
  seed=$(($(date +%s) + round))
  echo "== soak round $round, seed $seed"
  target/release/carillon sim --seed "$seed" --seeds 1000
  target/release/carillon sim --nodes 3 --seed "$seed" --seeds 1000
  target/release/carillon sim --nodes 5 --seed "$seed" --seeds 300
  "$python" tests/kill9/run.py --seed "$seed" --rounds 60
  "$python" tests/differential/run.py --seed "$seed" --streams 500
  "$python" tests/abuse/run.py
done
echo "== soak: $round rounds without a failure"
