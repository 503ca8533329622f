#!/usr/bin/env bash
# bench.sh: benchmarks. End to end where lab/bench/run.sh is; else the benches of single crates.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -x lab/bench/run.sh ]; then
  exec scripts/lab.sh lab/bench/run.sh
fi
echo "bench: lab/bench/run.sh: not found: only the benches of single crates are run" >&2
exec cargo bench --locked --workspace --benches
