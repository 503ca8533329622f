#!/usr/bin/env bash
# Live capture between two namespaces: capacity, drops, processor time, equality with a file, and that every frame is
# accounted for; with Suricata if it is named (--suricata). Needs root, ip, cc, python3, zstd and the corpus.
set -euo pipefail
cd "$(dirname "$0")/../.."
GABION=${GABION:-$(realpath "${CARGO_TARGET_DIR:-target}/release/gabion")}
[ -x "$GABION" ] || cargo build --locked --release -q -p gabion
export GABION
exec python3 lab/live/live.py "$@"
