#!/usr/bin/env bash
# format.sh [--check]: formats every Rust file that git lists, or names those that are not formatted.
#
# `cargo fmt` follows `mod` lines from each crate's root. It does not see modules that a macro declares (the
# protocols, the detectors, the formats of flow logs), so the files are passed by name. Files of toys are left
# out: their modules exist only in the copy where scripts/toys.sh checks them.
set -euo pipefail
cd "$(dirname "$0")/.."

edition=$(sed -n 's/^edition = "\(.*\)"/\1/p' rustfmt.toml)
git ls-files -z --cached --others --exclude-standard -- '*.rs' ':!tests/toys' |
  while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done |
  xargs -0 rustfmt --edition "$edition" "$@"
