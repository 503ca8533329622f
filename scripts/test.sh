#!/usr/bin/env bash
# test.sh: the checks of every commit. Format and tidy come first, as they fail early; then every unit,
# crate and document test; then Suricata's and Slips' own tests of the program, if the corpus is there
# (GABION_CORPUS, else ../shared/corpus). It continues after a failed step, and ends with the sums:
#
#   N passed, N failed, N skipped
#
# One build serves all: conformance runs the binary that the tests built, whose overflow checks and
# debug assertions are on, so that Suricata's tests check these too.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
corpus=${GABION_CORPUS:-../shared/corpus}
binaries=$target/debug
floors=tests/conformance/floors
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A machine that builds once needs neither what the next build could use again nor lines of frames: a panic names its own.
[ "${CI:-}" != true ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_TEST_DEBUG=0
# Tests run in the folders of their crates, so the corpus is named from the root.
[ ! -d "$corpus" ] || corpus=$(realpath "$corpus")
[ -z "${GABION_CORPUS:-}" ] || export GABION_CORPUS=$corpus

passed=0 failed=0 skipped=0

step() { printf '\n== %s\n' "$1"; }

# Counts a step that is one check.
check() {
  local name=$1
  shift
  step "$name"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $name"; fi
}

# Runs cargo test and adds the counts of its binaries; a failed build counts as one failure.
cargo_test() {
  local name=$1 code=0 counts
  shift
  step "$name"
  cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$log" || code=$?
  counts=$(awk '/^test result: /{ p += $4; f += $6; i += $8 } END { print p+0, f+0, i+0 }' "$log")
  read -r p f i <<<"$counts"
  if [ "$code" != 0 ] && [ "$f" = 0 ]; then f=1; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + i))
}

skip() { step "$1"; echo "skipped: $1: $2"; skipped=$((skipped + 1)); }

check "format" scripts/format.sh --check
cargo_test "tidy" --package gabion-tidy
cargo_test "unit, crate and document tests" --workspace --exclude gabion-tidy

if [ ! -d "$corpus/suricata-verify/tests" ]; then
  skip "conformance: suricata-verify" "no $corpus/suricata-verify (set GABION_CORPUS)"
  skip "every capture" "no $corpus/captures (set GABION_CORPUS)"
  skip "conformance: captures" "no $corpus/captures (set GABION_CORPUS)"
else
  check "build of the program and the runners" \
    cargo build --locked --profile test --package gabion --package gabion-conformance
  check "conformance: suricata-verify, nothing of the baseline falls" \
    "$binaries/suricata-verify" --binary "$binaries/gabion" --causes \
    --baseline "$floors/suricata-verify.txt" --results "$target/suricata-verify.tsv" \
    --keep "$target/outputs/tests"
  if [ -d "$corpus/suricata-verify-more/tests" ]; then
    check "conformance: further tests, nothing of their baseline falls" \
      "$binaries/suricata-verify" --binary "$binaries/gabion" --causes \
      --tests "$corpus/suricata-verify-more/tests" --baseline "$floors/suricata-verify-more.txt" \
      --results "$target/suricata-verify-more.tsv" --keep "$target/outputs/tests-more"
  else
    skip "conformance: further tests" "no $corpus/suricata-verify-more"
  fi
  check "EVE: every record of these tests is valid against Suricata's schema" \
    "$binaries/eve-schema" --schema "$corpus/suricata-verify/schema.json" \
    --own crates/outputs/src/eve/own_members.tsv --binary "$binaries/gabion" "$target/outputs/tests"
  suites=(--suite tests)
  [ ! -d "$corpus/suricata-verify-more/tests" ] || suites+=(--suite tests-more)
  check "EVE: records of these tests are Suricata's, no suite below its floor" \
    "$binaries/records" --ours "$target/outputs" "${suites[@]}" --lines \
    --floors "$floors/records.tsv"
  check "every capture is read to its end or refused with one line" \
    "$binaries/every-capture" --binary "$binaries/gabion"
  check "conformance: captures, no suite below its floor" \
    "$binaries/captures" --binary "$binaries/gabion" --floors "$floors/captures.tsv"
fi

if [ ! -d "$corpus/flows" ]; then
  skip "conformance: flow logs" "no $corpus/flows (set GABION_CORPUS)"
else
  check "build of the program and the runner" \
    cargo build --locked --profile test --package gabion --package gabion-conformance
  check "conformance: flow logs, nothing below its floor" \
    "$binaries/flows" --binary "$binaries/gabion" --floors "$floors/flows.tsv"
fi

if [ ! -d "$corpus/falco-testing" ]; then
  skip "conformance: Falco's tests" "no $corpus/falco-testing (set GABION_CORPUS)"
else
  check "build of the program and the runner" \
    cargo build --locked --profile test --package gabion --package gabion-conformance
  check "conformance: Falco's tests, not below the floor" \
    "$binaries/falco-testing" --binary "$binaries/gabion" --list-failures --floor "$floors/falco.txt"
fi

printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
