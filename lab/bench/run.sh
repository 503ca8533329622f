#!/usr/bin/env bash
# End-to-end benchmarks, compared with lower bounds. First the sealed log: its parts compared with the maximum of
# the machine, then its commands. Then the network engine (and Suricata, if GABION_SURICATA names its program; the older
# name GABION_PEER is read, too).
# Then floods of flows with and without enough memory, and the most expensive packets compared with ordinary
# ones. Then system calls from files, compared with sysdig if it is installed. Then log intake, compared with rsyslog
# and syslog-ng if they are available. `--smoke` only checks that they run.
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
  python3 lab/bench/seal.py || failed+=("commands of the log")
  scripts/log_servers.sh "$target/log-servers" || true
fi
suricata=${GABION_SURICATA:-${GABION_PEER:-}}
python3 lab/bench/bench.py ${suricata:+--suricata "$suricata"} "$@" || failed+=("network engine")
python3 lab/bench/floods.py $smoke || failed+=("floods of flows")
if [ -n "$smoke" ]; then
  python3 lab/bench/dear.py --smoke || failed+=("expensive packets")
elif [ -f "$target/bench/et.rules" ]; then
  python3 lab/bench/dear.py --rules "$target/bench/et.rules" --ordinary "$target/bench/mixed.pcap" || failed+=("expensive packets")
fi
python3 lab/log/bench.py $smoke || failed+=("log intake")
python3 lab/bench/scap.py $smoke || failed+=("system calls")
python3 lab/bench/flows.py ${smoke:+--smoke --runs 1} || failed+=("flow logs")
[ ${#failed[@]} = 0 ] || { echo "bench: failed: ${failed[*]}" >&2; exit 1; }
