#!/usr/bin/env bash
# Floods a router in network namespaces as in the thread of 2004, without and with the guard: the published figures,
# ours, and the bars. --quick takes 90 s; --neighbours also fills the table of neighbours, which the host shares.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion
exec python3 lab/guard/lab.py "$@"
