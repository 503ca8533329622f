#!/usr/bin/env bash
# fuzz.sh SECONDS [plain]: runs every fuzz target for SECONDS, with libFuzzer if there is a C++ compiler:
# coverage needs no nightly toolchain, only the sanitizers do, and safe Rust has little use for them. With
# `plain`, or without a C++ compiler, the loop of tests/fuzz/src/main.rs runs them. Inputs that break something
# are written to fuzz/artifacts; repeat one with: cargo run --profile test -p gabion-fuzz -- replay TARGET FILE
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
kind=${2:-}
[ -z "${GABION_CORPUS:-}" ] || GABION_CORPUS=$(realpath "$GABION_CORPUS")
plain=$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug/gabion-fuzz

cargo build --quiet --locked --profile test --package gabion-fuzz
if [ "$kind" = plain ] || ! command -v c++ >/dev/null; then
  [ "$kind" = plain ] || echo "fuzz: no C++ compiler for libFuzzer: inputs are changed at random"
  exec "$plain" run --seconds "$seconds"
fi

# These are the flags of cargo-fuzz without its sanitizer. A named --target keeps them from build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/fuzz
CARGO_TARGET_DIR=$(realpath -m "$CARGO_TARGET_DIR")
cd fuzz
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code --cfg fuzzing" \
  cargo build --release --quiet --locked --target "$host" --bins

"$plain" seeds corpus
mkdir -p artifacts
failed=()
for name in $("$plain" list); do
  program=$name
  unset GABION_FUZZ_PROTO
  case $name in proto_*) program=proto && export GABION_FUZZ_PROTO=${name#proto_} ;; esac
  log=artifacts/$name.log
  if "$CARGO_TARGET_DIR/$host/release/$program" "corpus/$name" -artifact_prefix="artifacts/$name-" \
    -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=16384 -print_final_stats=1 \
    >"$log" 2>&1; then
    tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    printf '%-20s %9s inputs, coverage %s\n' "$name" "$tried" \
      "$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | cut -d' ' -f2)"
  else
    failed+=("$name")
    echo "$name: $(grep -m1 -E "panicked at|ERROR: libFuzzer" "$log"): see fuzz/$log"
  fi
done
[ ${#failed[@]} = 0 ] || { echo "fuzz: failed: ${failed[*]}"; exit 1; }
echo "fuzz: nothing found"
