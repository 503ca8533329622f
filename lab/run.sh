#!/usr/bin/env bash
# All experiments of lab/, one after the other; reports are in target/lab.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=()
for script in lab/*/run.sh; do
  printf '\n== %s\n' "$script"
  "$script" || failed+=("$script")
done
[ ${#failed[@]} = 0 ] || { echo "lab: failed: ${failed[*]}"; exit 1; }
