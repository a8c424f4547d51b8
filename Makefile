# Everything one does with Carillon. `make` alone lists the targets.
# Needs: Linux, rustup's cargo. What the tests need besides, `make setup` installs.
#
# One build profile, release, for the binary and for the tests: nothing is built twice.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build dist packages run wiki check test bench papers callgrind golden settings sim fuzz soak deny

DIR ?= carillon-dev
NODES ?=
SEED ?= 1
SECONDS_EACH ?= 20
HOURS ?= 1
BENCH ?=
PLAYS := $(addprefix rearrange-,join drain swap lose leave domain dark part isolate)
SCENARIOS := one-node data-size cluster redis-synced failover mixed-pipelines lua-scripts idle transfers $(PLAYS)
WITH_ETCD := cluster-etcd transfers-etcd

help: ## Lists the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | column -t -s '|'

setup: ## Installs what the tests need, skipping what is there
	@scripts/setup.sh

build: ## Builds target/release/carillon, and the console where Node.js is
	@scripts/bundle.sh
	@cargo build --release --locked

dist: ## Builds target/dist/carillon by what it does under load: a quarter faster, in ten minutes
	@scripts/setup.sh
	@scripts/dist.sh

packages: ## Packs the built binary: Debian package, tarball, list of crates, checksums
	@scripts/package.sh

run: build ## Builds and starts three nodes on ./carillon-dev (NODES=…, DIR=…)
	@exec target/release/carillon dev --dir $(DIR) $(if $(NODES),--nodes $(NODES))

wiki: ## Starts three nodes on ./carillon-wiki, and a wiki on them: http://127.0.0.1:8090/
	@scripts/wiki.sh

check: ## Format, clippy, unit tests and golden scripts: before each commit, in minutes
	@scripts/check.sh

test: ## All checks and tests: this is what CI runs
	@scripts/test.sh

papers: dist ## Measures what five documents measured, and writes docs/papers (forty minutes)
	@target/dist/carillon bench papers

bench: dist ## Measures one node, then a cluster, beside others; BENCH='--quick' for a short run
	@scripts/setup.sh bench
	@for name in $(SCENARIOS) $$(command -v etcd >/dev/null && echo $(WITH_ETCD)); do \
	  target/dist/carillon bench run $$name --out target/bench/$$name --replace $(if $(filter --quick,$(BENCH)),--seconds 1 --repetitions 1) || failed="$$failed $$name"; \
	done; \
	test ! -d target/bench/transfers-etcd || target/dist/carillon bench compare target/bench/transfers-etcd target/bench/transfers; \
	test -z "$$failed" || { echo "bench: failed:$$failed" >&2; exit 1; }
	@target/dist/carillon bench papers --only 000 --out target/bench/papers $(filter --quick,$(BENCH))

callgrind: ## Counts instructions per GET and SET
	@scripts/callgrind.sh

golden: ## Rewrites golden files (read the diff before committing it)
	@touch crates/*/tests/golden/main.rs crates/storage/src/engine/conformance/golden.rs # for scripts are listed when these are compiled
	@UPDATE_GOLDENFILES=1 cargo test --release --locked --workspace -- golden

settings: build ## Rewrites docs/settings.md from the settings of the program
	@scripts/settings_page.py

sim: build ## Runs the simulator once: make sim SEED=7
	@target/release/carillon sim --seed $(SEED)

fuzz: ## Runs each fuzz target for a while (SECONDS_EACH=20)
	@scripts/fuzz.sh $(SECONDS_EACH)

soak: build ## Long random tests: simulator, kill -9, streams (HOURS=1)
	@scripts/soak.sh $(HOURS)

deny: ## Checks licences and advisories of all dependencies
	@scripts/deny.sh
