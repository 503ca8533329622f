#!/usr/bin/env bash
# without_clang.sh: builds the program as on a machine without clang, which leaves out the BPF programs, and checks that
# all but live works: captures are read, and each live command ends with one line that says what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
export GABION_WITHOUT_CLANG=1
# Features are those of the workspace, so that no dependency is built again.
cargo build --locked --quiet --profile test --workspace --bin gabion
program=$target/debug/gabion
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failed=0

# ends CODE COMMAND…: the command ends with this code, and with one line on standard error that says why.
ends() {
  local wanted=$1 code=0
  shift
  timeout 20 "$@" >"$place/stdout" 2>"$place/stderr" || code=$?
  if [ "$code" != "$wanted" ] || [ "$(grep -c "built without clang" "$place/stderr")" != 1 ]; then
    echo "without clang: $*: exit $code (expected $wanted) and these lines (expected one that names clang):"
    cat "$place/stderr"
    failed=1
  fi
}

"$program" read demo/demo.scap --rules demo/syscalls.yaml -l "$place/out" >"$place/read" 2>&1 || { cat "$place/read"; failed=1; }
[ -s "$place/out/falco.json" ] || { echo "without clang: a capture of system calls gives no alert"; failed=1; }
"$program" read demo/demo.pcap --rules demo/gabion.rules -l "$place/packets" >"$place/read" 2>&1 || { cat "$place/read"; failed=1; }
ends 1 "$program" falco -r demo/syscalls.yaml
ends 4 "$program" guard watch
exit $failed
