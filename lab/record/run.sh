#!/usr/bin/env bash
# Records the demonstration again, with real programs in network namespaces, and reads it: the rules must
# alert as they do on the capture of the repository. It needs root and the programs that record.sh names;
# without them it is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
GABION=${GABION:-$target/release/gabion}
[ -x "$GABION" ] || cargo build --locked --release -q -p gabion
mkdir -p "$target/lab"
recorded=$target/lab/recorded.pcap

code=0
lab/record/record.sh "$recorded" || code=$?
if [ "$code" = 4 ]; then
  echo "record: skipped"
  exit 0
fi
[ "$code" = 0 ] || exit "$code"

"$GABION" rules test -S demo/gabion.rules "$recorded" --tsv | cut -f 2,3 | sort -n >"$target/lab/recorded.tsv"
"$GABION" rules test -S demo/gabion.rules demo/demo.pcap --tsv | cut -f 2,3 | sort -n >"$target/lab/demo.tsv"
if ! diff "$target/lab/demo.tsv" "$target/lab/recorded.tsv"; then
  echo "record: sid and count, < in the repository's capture, > in the new recording"
  exit 1
fi
echo "record: $(wc -l <"$target/lab/recorded.tsv") rules alert in the new recording as in the repository's: $recorded"
