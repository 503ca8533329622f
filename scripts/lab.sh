#!/usr/bin/env bash
# lab.sh SCRIPT: runs an experiment of lab/ with the release binary, or says that it is not there.
set -euo pipefail
cd "$(dirname "$0")/.."

script=$1
[ -x "$script" ] || { echo "lab: $script: not found: there is no such experiment yet (lab/ lists those there are)" >&2; exit 3; }
cargo build --release --locked --package gabion
GABION=$(realpath "${CARGO_TARGET_DIR:-target}/release/gabion")
export GABION
exec "$script"
