#!/usr/bin/env bash
# End-to-end benchmark, beside our own limit. The peer runs beside too when GABION_PEER names its program.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion -p gabion-limit
exec python3 lab/bench/bench.py ${GABION_PEER:+--peer "$GABION_PEER"} "$@"
