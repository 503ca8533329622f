#!/usr/bin/env bash
# End-to-end benchmark. The peer runs beside when GABION_PEER names its program.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion
exec python3 lab/bench/bench.py ${GABION_PEER:+--peer "$GABION_PEER"} "$@"
