#!/usr/bin/env bash
# run.sh: builds the release binary and reads the demonstration capture with its rules into ./out.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
echo "building the release binary (a first build takes some minutes)"
cargo build --release --locked --package gabion
rm -rf out
mkdir out
echo
echo "\$ gabion read demo/demo.pcap --rules demo/gabion.rules -l out"
"$target/release/gabion" read demo/demo.pcap --rules demo/gabion.rules -l out
echo
echo "\$ gabion guard report demo/guard/flood.csv.zst -l out/guard"
"$target/release/gabion" guard report demo/guard/flood.csv.zst -l out/guard 2>/dev/null
echo
echo "\$ gabion read demo/demo.scap --rules demo/syscalls.yaml -l out/syscalls --report out/syscalls/page.html"
mkdir out/syscalls
"$target/release/gabion" read demo/demo.scap --rules demo/syscalls.yaml -l out/syscalls --report out/syscalls/page.html
echo
echo "outputs are in out/:"
for file in out/* out/guard/* out/syscalls/*; do
  [ ! -f "$file" ] || printf '  %-16s %8d lines %8d bytes\n' "${file#out/}" "$(wc -l <"$file")" "$(wc -c <"$file")"
done
echo "next: docs/quickstart.md, or: $target/release/gabion read YOUR.pcap --rules YOUR.rules -l out"
