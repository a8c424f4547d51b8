#!/usr/bin/env bash
# Installs what tests and benchmarks need, and skips what is there: Redis and its tools (Debian's),
# redis-py in target/venv, schemathesis in target/openapi-venv, ioredis beside its test, go-redis and
# redis_exporter built into target/clients, Redis Commander beside its test; what tests/programs
# tries, in target/programs and beside its test; and what the console needs: Debian's chromium, and
# npm packages in console/node_modules. Programs that use volumes: those of libnbd, qemu and ext4,
# and fio; and nbdkit, which volumes are compared with.
# `setup.sh bench` installs Debian's etcd besides, a peer of benchmarks of clusters. They leave it
# out where it cannot be had, so that is no failure.
# `setup.sh soak` installs for Redis's Tcl suites besides; without that soak skips them.
# Quiet unless something fails. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."
export DEBIAN_FRONTEND=noninteractive

say() { echo "  setup: $*"; }

quietly() {
  local log
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    echo "setup: failed: $*" >&2
    return 1
  fi
  rm -f "$log"
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# Debian starts a freshly installed redis-server; RUNLEVEL=1 keeps it from taking port 6379.
install() {
  say "apt-get install $*"
  command -v apt-get >/dev/null || { echo "setup: please install: $*" >&2; return 1; }
  quietly as_root apt-get update -qq || true
  quietly as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@"
}

command -v cargo >/dev/null || { echo "setup: cargo is missing, see https://rustup.rs" >&2; exit 1; }

packages=()
command -v redis-server >/dev/null || packages+=(redis-server)
command -v redis-benchmark >/dev/null || packages+=(redis-tools)
command -v curl >/dev/null || packages+=(curl)
command -v openssl >/dev/null || packages+=(openssl)
command -v strace >/dev/null || packages+=(strace)
command -v python3 >/dev/null || packages+=(python3)
python3 -c 'import venv, ensurepip' 2>/dev/null || packages+=(python3-venv)
command -v npm >/dev/null || packages+=(nodejs npm)
command -v go >/dev/null || packages+=(golang-go)
command -v chromium >/dev/null || packages+=(chromium fonts-dejavu-core)
command -v nbdcopy >/dev/null || packages+=(libnbd-bin)
command -v nbdkit >/dev/null || packages+=(nbdkit)
command -v qemu-io >/dev/null || packages+=(qemu-utils)
command -v fio >/dev/null || packages+=(fio)
command -v mke2fs >/dev/null || packages+=(e2fsprogs)
[ ${#packages[@]} = 0 ] || install "${packages[@]}"

mkdir -p target/clients
want=$(cksum <tests/clients/requirements.txt)
if [ "$(cat target/venv/wanted 2>/dev/null)" != "$want" ]; then
  say "redis-py into target/venv"
  rm -rf target/venv
  quietly python3 -m venv target/venv
  quietly target/venv/bin/pip install --quiet --disable-pip-version-check \
    -r tests/clients/requirements.txt
  echo "$want" >target/venv/wanted
fi

want=$(cksum <tests/openapi/requirements.txt)
if [ "$(cat target/openapi-venv/wanted 2>/dev/null)" != "$want" ]; then
  say "schemathesis into target/openapi-venv"
  rm -rf target/openapi-venv
  quietly python3 -m venv target/openapi-venv
  quietly target/openapi-venv/bin/pip install --quiet --disable-pip-version-check \
    -r tests/openapi/requirements.txt
  echo "$want" >target/openapi-venv/wanted
fi

want=$(cksum <tests/clients/ioredis/package-lock.json)
if [ "$(cat tests/clients/ioredis/node_modules/.wanted 2>/dev/null)" != "$want" ]; then
  say "ioredis"
  (cd tests/clients/ioredis && quietly npm ci --no-audit --no-fund --loglevel=error)
  echo "$want" >tests/clients/ioredis/node_modules/.wanted
fi

want=$(cat tests/clients/goredis/{go.mod,go.sum,*.go} | cksum)
if [ "$(cat target/clients/goredis.wanted 2>/dev/null)" != "$want" ]; then
  say "go-redis"
  (cd tests/clients/goredis && quietly go build -o ../../../target/clients/goredis .)
  echo "$want" >target/clients/goredis.wanted
fi

mkdir -p target/programs
want=$(cksum <tests/programs/requirements.txt)
if [ "$(cat target/programs/venv/wanted 2>/dev/null)" != "$want" ]; then
  say "programs of Python"
  rm -rf target/programs/venv
  quietly python3 -m venv target/programs/venv
  quietly target/programs/venv/bin/pip install --quiet --disable-pip-version-check \
    -r tests/programs/requirements.txt
  echo "$want" >target/programs/venv/wanted
fi

want=$(cksum <tests/programs/node/package-lock.json)
if [ "$(cat tests/programs/node/node_modules/.wanted 2>/dev/null)" != "$want" ]; then
  say "programs of Node.js"
  (cd tests/programs/node && quietly npm ci --no-audit --no-fund --loglevel=error)
  echo "$want" >tests/programs/node/node_modules/.wanted
fi

want=$(cksum <console/package-lock.json)
if [ "$(cat console/node_modules/.wanted 2>/dev/null)" != "$want" ]; then
  say "what builds and checks the console"
  (cd console && quietly npm ci --no-audit --no-fund --loglevel=error)
  echo "$want" >console/node_modules/.wanted
fi

want=$(cat tests/programs/go/{go.mod,go.sum,*.go} | cksum)
if [ "$(cat target/programs/go.wanted 2>/dev/null)" != "$want" ]; then
  say "programs of Go"
  (cd tests/programs/go && quietly go build -o ../../../target/programs/go .)
  echo "$want" >target/programs/go.wanted
fi

want=$(cat tests/clients/exporter/{go.mod,go.sum} | cksum)
if [ "$(cat target/clients/exporter.wanted 2>/dev/null)" != "$want" ]; then
  say "redis_exporter into target/clients"
  if (cd tests/clients/exporter && quietly go build -o ../../../target/clients/redis_exporter \
    github.com/oliver006/redis_exporter); then
    echo "$want" >target/clients/exporter.wanted
  else
    say "redis_exporter cannot be had: its test is left out"
  fi
fi

want=$(cksum <tests/clients/commander/package-lock.json)
if [ "$(cat tests/clients/commander/node_modules/.wanted 2>/dev/null)" != "$want" ]; then
  say "Redis Commander"
  if (cd tests/clients/commander && quietly npm ci --no-audit --no-fund --loglevel=error); then
    echo "$want" >tests/clients/commander/node_modules/.wanted
  else
    say "Redis Commander cannot be had: its test is left out"
  fi
fi

if [ "${1-}" = soak ] && ! { command -v tclsh && command -v dpkg-source; } >/dev/null; then
  install tcl dpkg-dev || say "tcl or dpkg-dev cannot be installed: soak goes without the Tcl suites"
fi
[ "${1-}" = bench ] || exit 0

if ! command -v etcd >/dev/null && ! install etcd-server; then
  say "etcd cannot be installed: benchmarks of clusters go without it"
fi
