#!/usr/bin/env bash
# lab.sh SCRIPT [ARGUMENT…]: runs an experiment of lab/ with the release binary, or reports that it does not exist.
set -euo pipefail
cd "$(dirname "$0")/.."

script=$1
shift
[ -x "$script" ] || { echo "lab: $script: not found: lab/ holds the experiments" >&2; exit 3; }
cargo build --release --locked --package gabion
GABION=$(realpath "${CARGO_TARGET_DIR:-target}/release/gabion")
export GABION
exec "$script" "$@"
