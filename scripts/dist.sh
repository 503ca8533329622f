#!/usr/bin/env bash
# dist.sh: packs a stripped release binary with documents, licences and the demonstration into dist/.
set -euo pipefail
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=gabion-$version-$(uname -m)-linux
cargo build --release --locked --package gabion
rm -rf "dist/$name"
mkdir -p "dist/$name"
strip -o "dist/$name/gabion" "${CARGO_TARGET_DIR:-target}/release/gabion"
ln -s gabion "dist/$name/suricata"
scripts/documents.sh "dist/$name"
cp -r packaging "dist/$name/"
tar -C dist --sort=name --owner=0 --group=0 --numeric-owner \
  --mtime="@$(git log -1 --format=%ct 2>/dev/null || date +%s)" -czf "dist/$name.tar.gz" "$name"
(cd dist && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")
