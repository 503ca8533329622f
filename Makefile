# What one can do here. Every target first sees that its tools are there and installs what is missing
# (scripts/tools.sh says what); nothing else is needed than make, git and a network on the first run.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

export PATH := $(HOME)/.cargo/bin:$(PATH)

# Seconds that `make fuzz` gives each target.
SECONDS_EACH := $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),60)

.PHONY: help run test gate fuzz bench lab lab-network lab-log lab-behavior heap-profile dist install fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

run: ## build the release binary and read the demonstration capture into ./out
	@scripts/tools.sh
	@scripts/run.sh

test: ## format, tidy, unit and crate tests, conformance with the peer where the corpus is
	@scripts/tools.sh
	@scripts/test.sh

gate: ## what must hold before a change is called done: lints, docs, licences, fuzz and bench smoke
	@scripts/tools.sh gate
	@scripts/gate.sh

fuzz: ## every fuzz target for SECONDS (60) each
	@scripts/tools.sh
	@scripts/fuzz.sh $(SECONDS_EACH)

bench: ## end-to-end benchmarks, as a ratio to the peer where the peer is
	@scripts/tools.sh lab
	@scripts/bench.sh

lab: ## all experiments, repeatable; reports in target/lab
	@scripts/tools.sh lab
	@scripts/lab.sh lab/run.sh

lab-network: ## what rules, expressions, allocators and workers cost, beside published figures
	@scripts/tools.sh lab
	@scripts/lab.sh lab/network/run.sh

lab-log: ## slog's published stress tests on our log intake, then real senders; stored beside sent
	@scripts/tools.sh
	@scripts/lab.sh lab/log/run.sh

lab-behavior: ## the seven remedies of the study of Slips' resource exhaustion: published before, ours after
	@scripts/tools.sh lab
	@scripts/lab.sh lab/behavior/run.sh

heap-profile: ## a binary whose heap jemalloc profiles, and a profile of the demonstration
	@scripts/tools.sh
	@scripts/heap_profile.sh

dist: ## a packed release binary with documents in dist/
	@scripts/tools.sh
	@scripts/dist.sh

install: ## install the release binary, documents and units; DESTDIR= for who makes a package, PREFIX= [/usr]
	@scripts/tools.sh
	@cargo build --release --locked --package gabion
	@scripts/install.sh "$${CARGO_TARGET_DIR:-target}/release/gabion"

fmt: ## format every Rust file
	@cargo fmt --all
	@cargo fmt --manifest-path fuzz/Cargo.toml

clean: ## remove what was built and the outputs of `make run`
	@rm -rf target fuzz/target out dist
