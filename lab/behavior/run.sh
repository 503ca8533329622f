#!/usr/bin/env bash
# Runs each remedy of the published study of Slips' resource exhaustion as an experiment with Gabion.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion
exec python3 lab/behavior/lab.py "$@"
