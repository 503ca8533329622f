#!/usr/bin/env bash
# Random rules and records over the captures of the corpus, compared between Suricata and Gabion. GABION_SURICATA names Suricata,
# GABION_SURICATA_YAML its configuration (the older names GABION_PEER and GABION_PEER_YAML are read, too); SEEDS the seeds. Fails if an answer is rarer the same than floors.tsv says.
set -euo pipefail
cd "$(dirname "$0")/../.."
suricata=${GABION_SURICATA:-${GABION_PEER:-}}
if [ -z "$suricata" ]; then
  echo "differential: skipped: GABION_SURICATA names no Suricata to compare with"
  exit 0
fi
GABION=${GABION:-$(realpath "${CARGO_TARGET_DIR:-target}/release/gabion")}
corpus=${GABION_CORPUS:-../shared/corpus}
yaml=${GABION_SURICATA_YAML:-${GABION_PEER_YAML:-$(dirname "$(realpath "$suricata")")/root/etc/suricata/suricata.yaml}}
[ -d "$corpus/captures" ] || { echo "differential: skipped: $corpus/captures is missing"; exit 0; }
out=${CARGO_TARGET_DIR:-target}/lab/differential
mkdir -p "$out"
failed=0
while IFS=$'\t' read -r name options floor; do
  case $name in '#'*) continue ;; esac
  for seed in ${SEEDS:-1}; do
    echo "== $name, seed $seed"
    read -ra words <<<"$options"
    python3 lab/differential/differential.py "$suricata" "$GABION" "$yaml" "$corpus/captures" --seed "$seed" \
      --out "$out/$name-$seed.tsv" --floor "$floor" ${words[@]+"${words[@]}"} "$@" || failed=1
  done
done <lab/differential/floors.tsv
if [ -d "$corpus/suricata-verify/tests" ]; then
  echo "== refused rules"
  python3 lab/differential/refusals.py "$suricata" "$GABION" "$yaml" "$corpus/suricata-verify/tests" --out "$out/refusals" --floor 98.0 || failed=1
fi
if [ -e "$corpus/bench/mixed.pcap.zst" ]; then
  echo "== records of bench"
  GABION_CORPUS=$corpus cargo run --release --locked --quiet --package gabion-conformance --bin records -- --binary "$GABION" \
    --suricata "$suricata" --suite bench --lines --floors tests/conformance/floors/records.tsv || failed=1
fi
exit "$failed"
