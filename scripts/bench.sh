#!/usr/bin/env bash
# bench.sh: runs the end-to-end benchmarks of lab/bench/run.sh or, if it is missing, the benches of single crates.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -x lab/bench/run.sh ]; then
  exec scripts/lab.sh lab/bench/run.sh
fi
echo "bench: lab/bench/run.sh: not found: running only the benches of single crates" >&2
exec cargo bench --locked --workspace --benches
