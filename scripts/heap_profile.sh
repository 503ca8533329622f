#!/usr/bin/env bash
# heap_profile.sh [CAPTURE RULES]: builds the program with jemalloc's heap profiler (feature heap-profile)
# and reads a capture (by default the demonstration). It writes to target/heap-profile/: statistics of the allocator,
# dumps at every 16 MiB allocated (1 MiB for the demonstration) and at the end, and the memory still held at exit.
set -euo pipefail
cd "$(dirname "$0")/.."

capture=${1:-demo/demo.pcap}
rules=${2:-demo/gabion.rules}
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/heap-profile
rm -rf "$folder/dumps"
mkdir -p "$folder/dumps" "$folder/out"
# The build has a folder of its own, so that the usual binary stays unchanged.
cargo build --release --locked --package gabion --features heap-profile --target-dir "$folder/build"
program=$folder/gabion
cp "$folder/build/release/gabion" "$program"

# lg_prof_interval: a dump at every 2^24 bytes allocated, for the small demonstration 2^20. lg_prof_sample 14:
# one stack every 16 KiB. The statistics omit single arenas and sizes.
interval=24
[ $# -gt 0 ] || interval=20
export _RJEM_MALLOC_CONF="prof:true,prof_leak:true,prof_final:true,lg_prof_sample:14,lg_prof_interval:$interval,\
stats_print:true,stats_print_opts:dablxeh,prof_prefix:$folder/dumps/gabion"
"$program" read -q "$capture" --rules "$rules" -k none -l "$folder/out" --overwrite 2>"$folder/allocator.txt"
unset _RJEM_MALLOC_CONF
grep '^<jemalloc>' "$folder/allocator.txt" || true
echo "dumps: $(find "$folder/dumps" -name '*.heap' | wc -l) in $folder/dumps; the allocator's statistics: $folder/allocator.txt"

# jemalloc's own reader of dumps is a script in its sources, complete except for its version.
source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -path '*/tikv-jemalloc-sys-*/jemalloc/bin/jeprof.in' 2>/dev/null | sort | tail -1)
reader=
if [ -n "$source" ]; then
  reader=$folder/jeprof
  sed 's/@jemalloc_version@/of the sources/' "$source" >"$reader"
fi
last=$(find "$folder/dumps" -name '*.heap' -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)
if [ -n "$reader" ] && [ -n "$last" ] && command -v perl >/dev/null && command -v addr2line >/dev/null; then
  echo "what held memory when the program ended (jeprof --show_bytes --text):"
  { perl "$reader" --show_bytes --text "$program" "$last" 2>/dev/null || true; } | head -15
  echo "two dumps compared: perl $reader --show_bytes --text --base EARLIER.heap $program LATER.heap"
else
  echo "perl and binutils read dumps: perl jeprof --show_bytes --text $program $last"
fi
