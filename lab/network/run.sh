#!/usr/bin/env bash
# Repeats the experiments that Suricata's developers published about its costs on this engine, each compared with the
# published figure. Results: a table here, and target/lab/network.html, which opens offline.
set -euo pipefail
cd "$(dirname "$0")/../.."
GABION=${GABION:-$(realpath "${CARGO_TARGET_DIR:-target}/release/gabion")}
[ -x "$GABION" ] || cargo build --locked --release -q -p gabion
export GABION
exec python3 lab/network/lab.py "$@"
