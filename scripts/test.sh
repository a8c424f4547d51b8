#!/usr/bin/env bash
# All checks and tests, in order, each under a title with its time. Goes on after a failure, except
# when nothing can be built. The last line sums up the scripted suites and the steps themselves:
# `N passed, N failed`.
set -uo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never} PYTHONDONTWRITEBYTECODE=1
began=$SECONDS
passed=0
failed=0
failures=()
log=$(mktemp)
why=$(mktemp)
# Of one step: twice what the longest takes. A step that hangs ends then, with all that it
# has started, and the others are run. At a terminal it stays within reach of Ctrl-C instead.
limit=(timeout --kill-after=10 2700)
[ -t 1 ] && limit=(timeout --foreground --kill-after=10 2700)
trap 'rm -f "$log" "$why"' EXIT

finish() {
  echo
  echo "== done in $((SECONDS - began)) s"
  for each in "${failures[@]+"${failures[@]}"}"; do echo "   failed: $each"; done
  # What they said of it, again, for readers of the end.
  cut -c 1-300 "$why"
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}

# step TITLE COMMAND…: a summary line `NAME: N passed, N failed` in the output counts as it says;
# without one, the step itself is one check.
step() {
  local title=$1 start=$SECONDS code line
  shift
  echo
  echo "== $title (at $((SECONDS - began)) s)"
  "${limit[@]}" "$@" </dev/null 2>&1 | tee "$log"
  code=${PIPESTATUS[0]}
  [ "$code" = 124 ] && echo "stopped after three quarters of an hour: something waits for ever"
  line=$(grep -E '^[a-z0-9 -]+: [0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
  if [ -n "$line" ]; then
    passed=$((passed + $(sed -E 's/.*: ([0-9]+) passed.*/\1/' <<<"$line")))
    local bad
    bad=$(sed -E 's/.* ([0-9]+) failed$/\1/' <<<"$line")
    [ "$code" != 0 ] && [ "$bad" = 0 ] && bad=1
    failed=$((failed + bad))
  elif [ "$code" = 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  if [ "$code" != 0 ]; then
    failures+=("$title")
    grep -E 'FAILED|panicked at|^error|: failed|^ +failed' "$log" | head -n 20 >>"$why"
  fi
  echo "== $title: $([ "$code" = 0 ] && echo ok || echo FAILED) in $((SECONDS - start)) s"
  return "$code"
}

python=target/venv/bin/python

step "setup" scripts/setup.sh || finish
step "format" cargo fmt --all --check
step "build" cargo build --release --locked -p carillon -p wiki || finish
step "clippy" cargo clippy --release --locked --quiet --workspace --all-targets -- -D warnings
step "tests of all crates" scripts/test_crates.sh
step "tests of what threads share" cargo test --release --locked -p threads --quiet
step "documents" python3 scripts/check_docs.py
step "documents: words, length, numbers" python3 scripts/check_words.py
step "documents: the checks themselves" bash -c \
  "python3 scripts/check_docs.py --self-test && python3 scripts/check_words.py --self-test"
step "documents: messages of commits" python3 scripts/commit-msg --self-test
step "the page of settings" python3 scripts/settings_page.py --check
step "documentation" env RUSTDOCFLAGS="-D warnings" \
  cargo doc --release --locked --quiet --workspace --no-deps
step "simulator" target/release/carillon sim --seed 1 --seeds 200
step "simulator: clusters of three" target/release/carillon sim --nodes 3 --seed 1 --seeds 300
step "simulator: clusters of five" target/release/carillon sim --nodes 5 --seed 1 --seeds 80
step "simulator: clusters of seven" target/release/carillon sim --nodes 7 --seed 1 --seeds 24
step "simulator: clusters, each seed twice" target/release/carillon sim --nodes 3 --seed 401 --seeds 20 --doublecheck
step "simulator: each seed twice" target/release/carillon sim --seed 201 --seeds 20 --doublecheck
step "differential: redis with itself" "$python" tests/differential/run.py \
  --self-test --seed 1 --streams 10
step "differential: redis with carillon" "$python" tests/differential/run.py --seed 1
step "clients" "$python" tests/clients/with_node.py
step "cluster clients" "$python" tests/clients/with_cluster.py
step "clients by TLS" "$python" tests/clients/with_tls.py
step "programs that use Redis" "$python" tests/programs/run.py --brief
# The promise, 1.5 s, is held by the tests of `carillon --test faults`, which know when the
# machine itself stood still. This one does not, and so is patient.
step "service when a node breaks" target/release/carillon bench run failover --repetitions 1 \
  --set 'pass=[{phase="broken",metric="max",at_most="2.5s"}]' --replace --out target/bench/test
step "kill -9" "$python" tests/kill9/run.py --seed 1 --rounds 8
step "bad input" "$python" tests/abuse/run.py
step "openapi: the document as requests" "$python" tests/openapi/run.py
step "format: the document as a reader" "$python" tests/format/run.py
step "packages" target/openapi-venv/bin/python tests/packages/run.py
step "console" scripts/console.sh
step "the sessions of the documents" "$python" scripts/check_readme.py
finish
