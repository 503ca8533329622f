#!/usr/bin/env bash
# End-to-end benchmarks, beside our own limits. First the sealed log: its parts beside what the machine can do
# at most, then its verbs. Then the network engine (the peer runs beside too when GABION_PEER names its program).
# Then floods of flows without room for them, beside floods with room, and the dearest packets beside ordinary
# ones. Then log intake beside rsyslog and
# syslog-ng where they can be had. `--smoke`: that they run.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion -p gabion-limit
target=$(realpath "${CARGO_TARGET_DIR:-target}")
export GABION=${GABION:-$target/release/gabion}
failed=()
smoke=
if [ "${1:-}" = --smoke ]; then
  smoke=--smoke
else
  GABION_CORPUS=$(realpath -m "${GABION_CORPUS:-../shared/corpus}") cargo bench --locked -q -p gabion-seal --bench seal || failed+=(seal)
  python3 lab/bench/seal.py || failed+=("verbs of the log")
  scripts/log_peers.sh "$target/log-peers" || true
fi
python3 lab/bench/bench.py ${GABION_PEER:+--peer "$GABION_PEER"} "$@" || failed+=("network engine")
python3 lab/bench/floods.py $smoke || failed+=("floods of flows")
if [ -n "$smoke" ]; then
  python3 lab/bench/dear.py --smoke || failed+=("dear packets")
elif [ -f "$target/bench/et.rules" ]; then
  python3 lab/bench/dear.py --rules "$target/bench/et.rules" --ordinary "$target/bench/mixed.pcap" || failed+=("dear packets")
fi
python3 lab/log/bench.py $smoke || failed+=("log intake")
python3 lab/bench/flows.py ${smoke:+--smoke --runs 1} || failed+=("logs of flows")
[ ${#failed[@]} = 0 ] || { echo "bench: failed: ${failed[*]}" >&2; exit 1; }
