#!/usr/bin/env bash
# The stress tests that slog's author published, in their order, against our log intake: what was published,
# ours, and how much of what was sent is stored; then real senders: logger, rsyslog, syslog-ng. Then the
# hostile wire in its real size, and a flood of FLOOD seconds (60; 600 is the measure) with its memory.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath "${CARGO_TARGET_DIR:-target}")
cargo build --locked --release -q -p gabion -p gabion-limit
export GABION=${GABION:-$target/release/gabion}
scripts/log_peers.sh "$target/log-peers" || true
mkdir -p "$target/lab"
quick=
[ "${1:-}" != --quick ] || quick=--quick
failed=()
# A listener under load, killed so often: what it had acknowledged is there each time.
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
# With other messages each time: what was recorded is the test `variations`.
python3 lab/log/variations.py --seed "${SEED:-$RANDOM}" --count 10000 --show 2 || failed+=(variations)
[ ${#failed[@]} = 0 ] || { echo "lab-log: failed: ${failed[*]}" >&2; exit 1; }
