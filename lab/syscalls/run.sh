#!/usr/bin/env bash
# Repeats redis-benchmark as in the proposal to drop enter events: bare, with our probe, and with an empty program at
# sys_enter next to it; the costs of single calls; live rules. --quick runs everything once, with few requests.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion
exec python3 lab/syscalls/lab.py "$@"
