#!/usr/bin/env bash
# Builds target/dist/carillon, the binary that is worth shipping: one program, optimised as one, by
# what it does under load. Three steps, of some minutes each:
#   1. a build that counts what is executed,
#   2. loads of `carillon bench` on it, on loopback, of the kinds that users have,
#   3. the build that goes by these counts.
# The counts are put together by llvm-profdata of the compiler's own LLVM: rustup's component
# llvm-tools, or else Debian's package llvm-NN; what is missing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/target/train
host=$(rustc -vV | sed -n 's/^host: //p')
llvm=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')

profdata() { # prints the path of the tool, if it is there
  local ours
  ours=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
  if [ -x "$ours" ]; then echo "$ours"; else command -v "llvm-profdata-$llvm"; fi
}

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

if ! profdata >/dev/null; then
  mkdir -p "$work"
  echo "  dist: rustup component add llvm-tools"
  rustup component add llvm-tools >"$work/tools.log" 2>&1 || {
    echo "  dist: apt-get install llvm-$llvm"
    {
      as_root apt-get update -qq || true
      as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "llvm-$llvm" || true
    } >>"$work/tools.log" 2>&1 </dev/null
  }
  profdata >/dev/null || {
    echo "dist: llvm-profdata of LLVM $llvm cannot be had: $work/tools.log" >&2
    echo "dist: please 'rustup component add llvm-tools', or 'cargo build --profile dist' for a" >&2
    echo "dist: binary that goes by no counts" >&2
    exit 1
  }
fi

# A target that is named keeps these flags from what runs while building.
build() { # FLAGS…
  RUSTFLAGS="$*" cargo build --profile dist --locked --quiet --package carillon \
    --target "$host" --target-dir "$work"
}

rm -rf "$work/counts"
mkdir -p "$work/counts"
echo "  dist: building what counts"
build -Cprofile-generate="$work/counts"
cp "$work/$host/dist/carillon" "$work/carillon"

echo "  dist: loads"
train() {
  LLVM_PROFILE_FILE="$work/counts/%p.profraw" "$@" >>"$work/loads.log" 2>&1 || {
    echo "dist: $* has failed: $work/loads.log" >&2
    exit 1
  }
}
: >"$work/loads.log"
train "$work/carillon" bench run transfers --out "$work/bench/transfers" --replace \
  --repetitions 1 --set keys.count=20_000 --set keys.hot_keys=0.005 --set phase.rest.seconds=3
train "$work/carillon" bench run cluster --out "$work/bench/cluster" --replace \
  --seconds 2 --repetitions 1
"$(profdata)" merge -o "$work/counts.profdata" "$work"/counts/*.profraw

echo "  dist: building by these counts"
build -Cprofile-use="$work/counts.profdata"
mkdir -p target/dist
cp "$work/$host/dist/carillon" target/dist/carillon
echo "  dist: target/dist/carillon"
