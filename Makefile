# Targets of the project. Each first checks for its tools and installs missing ones (scripts/tools.sh lists
# them); only make, git and, on the first run, a network are needed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export PATH := $(HOME)/.cargo/bin:$(PATH)

# Seconds that `make fuzz` gives each target.
SECONDS_EACH := $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),60)

.PHONY: help run test gate toys fuzz bench lab lab-network lab-live lab-log lab-behavior lab-guard lab-syscalls differential heap-profile dist install fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

run: ## build the release binary and read the demonstration capture into ./out
	@scripts/tools.sh
	@scripts/run.sh

test: ## format, tidy, unit and crate tests, and conformance with Suricata if the corpus is there
	@scripts/tools.sh live
	@scripts/test.sh

gate: ## checks before a change is done: lints, docs, licences, smoke tests of fuzz and bench
	@scripts/tools.sh gate
	@scripts/gate.sh

toys: ## add one of each kind of thing to a copy, as a newcomer would, and count what it touches
	@scripts/tools.sh
	@scripts/toys.sh

fuzz: ## every fuzz target for SECONDS (60) each
	@scripts/tools.sh
	@scripts/fuzz.sh $(SECONDS_EACH)

bench: ## end-to-end benchmarks, as a ratio to Suricata if GABION_SURICATA names it
	@scripts/tools.sh lab
	@scripts/bench.sh

lab: ## all experiments, repeatable; reports in target/lab
	@scripts/tools.sh lab
	@scripts/lab.sh lab/run.sh

lab-network: ## what rules, expressions, allocators and workers cost, compared with published figures
	@scripts/tools.sh lab
	@scripts/lab.sh lab/network/run.sh

lab-live: ## live capture between two namespaces: capacity, drops, processor time, equality with a file (root)
	@scripts/tools.sh lab
	@scripts/lab.sh lab/live/run.sh $(ARGS)

lab-log: ## slog's published stress tests on our log intake, then real senders; stored and sent
	@scripts/tools.sh
	@scripts/lab.sh lab/log/run.sh

lab-behavior: ## the seven remedies of the study of Slips' resource exhaustion: published before, measured after
	@scripts/tools.sh lab
	@scripts/lab.sh lab/behavior/run.sh

lab-guard: ## the flood of 2004 in namespaces of this machine, without and with the guard; ARGS=--quick: 90 s
	@scripts/tools.sh lab
	@scripts/lab.sh lab/guard/run.sh $(ARGS)

lab-syscalls: ## the benchmark of the proposal to drop enter events, on our probe; ARGS=--quick: a check
	@scripts/tools.sh lab
	@scripts/lab.sh lab/syscalls/run.sh $(ARGS)

differential: ## random rules and records, compared with the Suricata that GABION_SURICATA names; floors are kept
	@scripts/tools.sh lab
	@scripts/lab.sh lab/differential/run.sh

heap-profile: ## build with jemalloc's heap profiler, and profile the demonstration
	@scripts/tools.sh
	@scripts/heap_profile.sh

dist: ## pack a release binary with documents into dist/
	@scripts/tools.sh live
	@scripts/dist.sh

install: ## install the release binary, documents and units; DESTDIR= for packagers, PREFIX= [/usr]
	@scripts/tools.sh live
	@cargo build --release --locked --package gabion
	@scripts/install.sh "$${CARGO_TARGET_DIR:-target}/release/gabion"

fmt: ## format every Rust file
	@scripts/format.sh

clean: ## remove build files and the outputs of `make run`
	@rm -rf target fuzz/target out dist
