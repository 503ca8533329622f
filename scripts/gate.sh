#!/usr/bin/env bash
# gate.sh: checks before a change is done, in addition to `make test`: lints on all targets,
# documents without warnings, licences and sources of dependencies, two seconds of every fuzz target,
# toys (scripts/toys.sh), a build without clang (scripts/without_clang.sh), benches that build and run once.
# It continues after a failed step and lists the failed ones at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {
  local name=$1
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then echo "good: $name"; else failed+=("$name"); echo "failed: $name"; fi
}

licences() {
  command -v cargo-deny >/dev/null || { echo "cargo-deny is not installed: run make gate with a network"; return 1; }
  # The graph includes crates for other systems, which a build on this one has not fetched.
  cargo fetch --locked --quiet || echo "not all crates can be fetched: continuing with those that are there"
  cargo deny --offline check licenses bans sources
}

# Advisories need their database; without a network the step is skipped with a message and does not fail.
advisories() {
  command -v cargo-deny >/dev/null || { echo "cargo-deny is not installed"; return 1; }
  cargo deny fetch db || { echo "skipped: the advisory database can't be fetched"; return 0; }
  cargo deny check advisories
}

# Finds dependencies that a manifest names but no source of the crate does. md-5 is called md5 in sources.
unused_dependencies() {
  local manifest crate name found=0
  for manifest in crates/*/Cargo.toml tests/*/Cargo.toml lab/*/Cargo.toml; do
    crate=$(dirname "$manifest")
    while read -r name; do
      case $crate:$name in *:md-5) name=md5 ;; esac
      grep -rqE "\b${name//-/_}\b" --include='*.rs' "$crate" || { echo "$manifest: $name is not used"; found=1; }
    done < <(awk '/^\[/{ on = /dependencies\]$/ } on && /=/ { print $1 }' "$manifest")
  done
  return $found
}

# Checks that the lock files of both workspaces match their manifests: otherwise builds with --locked are refused.
locks() {
  cargo fetch --locked --quiet && cargo fetch --locked --quiet --manifest-path fuzz/Cargo.toml
}

step "lock files" locks
step "clippy" cargo clippy --locked --workspace --all-targets -- -D warnings
step "documents" env RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --document-private-items --quiet
step "licences, bans, sources" licences
step "advisories" advisories
step "unused dependencies" unused_dependencies
step "fuzz smoke" scripts/fuzz.sh 2 plain
step "toys" scripts/toys.sh
step "without clang" scripts/without_clang.sh
step "bench smoke" cargo bench --locked --package gabion-matcher --package gabion-packet --bench '*' -- --test

if [ ${#failed[@]} -gt 0 ]; then
  printf '\ngate: failed: %s\n' "${failed[*]}"
  exit 1
fi
printf '\ngate: all good\n'
