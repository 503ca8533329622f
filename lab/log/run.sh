#!/usr/bin/env bash
# Runs the stress tests that slog's author published, in their order, against our log intake, with the published
# figures, ours, and the stored share of the sent messages; then real senders: logger, rsyslog, syslog-ng. Then the
# hostile wire at full size, and a flood of FLOOD seconds (60; 600 for the published figures) with its memory.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath "${CARGO_TARGET_DIR:-target}")
cargo build --locked --release -q -p gabion -p gabion-limit
export GABION=${GABION:-$target/release/gabion}
scripts/log_servers.sh "$target/log-servers" || true
mkdir -p "$target/lab"
quick=
[ "${1:-}" != --quick ] || quick=--quick
failed=()
# Kills a listener under load this many times: all acknowledged messages must be there each time.
if [ -z "$quick" ]; then
  GABION_KILLS=${GABION_KILLS:-200} cargo test --locked -q -p gabion --test kills -- --nocapture 2>&1 |
    grep -v "^gabion:" || failed+=(kills)
fi
python3 lab/log/lab.py $quick --json "$target/lab/log-timeline.json" || failed+=(timeline)
echo
python3 lab/log/hostile.py $quick --json "$target/lab/log-hostile.json" || failed+=("hostile wire")
echo
python3 lab/log/flood.py --seconds "${FLOOD:-60}" --json "$target/lab/log-flood.json" || failed+=(flood)
echo
# Uses other messages each time; the test `variations` has recorded ones.
python3 lab/log/variations.py --seed "${SEED:-$RANDOM}" --count 10000 --show 2 || failed+=(variations)
[ ${#failed[@]} = 0 ] || { echo "lab-log: failed: ${failed[*]}" >&2; exit 1; }
