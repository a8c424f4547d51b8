#!/usr/bin/env bash
# Random tests for HOURS hours (default 1), with new seeds each time: simulator, kill -9 rounds,
# command streams beside redis-server, programs that use Redis, bad input. Rooms of socket.io over
# three nodes, redis-py's own tests and Redis's Tcl suites come first. Stops at the first failure;
# seeds are printed.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh soak
python=target/venv/bin/python
"$python" -m pip install --quiet --requirement tests/clients/requirements-soak.txt
"$python" tests/clients/socketio_rooms.py
# Two modes take six minutes.
timeout --kill-after=10 2400 "$python" tests/clients/redis_py_own_tests.py
"$python" tests/tcl/run.py
# Ten thousand clients that begin a TLS handshake and never end it.
TEST_HALF_OPEN=10000 cargo test --release --locked -p carillon --test tls who_never_ends
until_second=$((SECONDS + ${1:-1} * 3600))
round=0
while [ "$SECONDS" -lt "$until_second" ]; do
  round=$((round + 1))
  seed=$(($(date +%s) + round))
  echo "== soak round $round, seed $seed"
  target/release/carillon sim --seed "$seed" --seeds 1000
  target/release/carillon sim --nodes 3 --seed "$seed" --seeds 1000
  target/release/carillon sim --nodes 5 --seed "$seed" --seeds 300
  target/release/carillon sim --nodes 7 --seed "$seed" --seeds 100
  "$python" tests/kill9/run.py --seed "$seed" --rounds 60
  "$python" tests/differential/run.py --seed "$seed" --streams 500
  # Twelve programs in two modes take four minutes.
  timeout --kill-after=10 1800 "$python" tests/programs/run.py
  "$python" tests/abuse/run.py
done
echo "== soak: $round rounds without a failure"
