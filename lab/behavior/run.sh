#!/usr/bin/env bash
# The remedies of the published study of Slips' resource exhaustion, each as an experiment on ours.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --locked --release -q -p gabion
exec python3 lab/behavior/lab.py "$@"
