#!/usr/bin/env bash
# The stress tests that slog's author published, in their order, against our log intake: what was published,
# ours, and how much of what was sent is stored. Then real senders: logger, rsyslog, syslog-ng.
set -euo pipefail
cd "$(dirname "$0")/../.."
GABION=${GABION:-$(realpath "${CARGO_TARGET_DIR:-target}/release/gabion")}
[ -x "$GABION" ] || cargo build --locked --release -q -p gabion
export GABION
scripts/log_peers.sh "${CARGO_TARGET_DIR:-target}/log-peers" || true
case " $* " in
  *" --quick "*) ;;
  # A listener under load, killed so often: what it had acknowledged is there each time.
  *) GABION_KILLS=${GABION_KILLS:-200} cargo test --locked -q -p gabion --test kills -- --nocapture 2>&1 | grep -v "^gabion:" ;;
esac
exec python3 lab/log/lab.py "$@"
