#!/usr/bin/env bash
# End-to-end benchmarks, beside our own limits. The peer runs beside too when GABION_PEER names its program.
# Behind them the sealed log: its parts beside what the machine can do at most, then its verbs.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion -p gabion-limit
if [ "${1:-}" != --smoke ]; then
  GABION_CORPUS=$(realpath -m "${GABION_CORPUS:-../shared/corpus}") cargo bench --locked -q -p gabion-seal --bench seal
  python3 lab/bench/seal.py
fi
exec python3 lab/bench/bench.py ${GABION_PEER:+--peer "$GABION_PEER"} "$@"
