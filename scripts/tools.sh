#!/usr/bin/env bash
# tools.sh [live|gate|lab]: checks for the build tools, and installs missing ones.
#
# A C compiler (PCRE2, Lua, zstd, mimalloc and AWS-LC are built from source; none of them needs cmake)
# comes from the distribution's packages; the Rust toolchain of rust-toolchain.toml comes by rustup.
# Debian 12's own cargo (0.66) can't read this workspace. `live` adds clang for the BPF programs (without it
# all but live sources is built) and what tests set interfaces up with, `gate` clang and cargo-deny, `lab` what `live` adds
# and what the experiments load the machine with. suricatasc, which two tests ask, is in no package of Debian 12 but that of
# Suricata: it is not installed, and these tests are skipped by name where it is missing.
# If nothing is missing, the script prints nothing and takes a fraction of a second.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "tools: $*" >&2; }
fail() { say "$@"; exit 4; }
have() { command -v "$1" >/dev/null 2>&1; }

channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)

packages() {
  local missing=()
  have cc || missing+=(gcc)
  [ -e /usr/include/stdio.h ] || have clang || missing+=(libc6-dev)
  have cargo || have rustup || have curl || missing+=(curl ca-certificates)
  if [ "$1" = lab ]; then
    have python3 || missing+=(python3)
    have zstd || missing+=(zstd)
    have ip || missing+=(iproute2)
    have nft || missing+=(nftables)
    have redis-server || missing+=(redis-server)
    have redis-benchmark || missing+=(redis-tools)
    have sysdig || missing+=(sysdig)
  fi
  [ ${#missing[@]} -gt 0 ] || return 0
  have apt-get || fail "missing: ${missing[*]}: install them with this system's packages"
  [ "$(id -u)" = 0 ] || fail "missing: ${missing[*]}: run as root: apt-get install ${missing[*]}"
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq >&2 || say "apt-get update failed, continuing with the present lists"
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# Without clang everything else is built and tested, so its absence is no failure.
clang_for_bpf() {
  have "${GABION_CLANG:-clang}" && return 0
  if have apt-get && [ "$(id -u)" = 0 ]; then
    say "installing Debian packages: clang llvm"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang llvm >&2 && return 0
  fi
  say "clang 14 or newer is missing: built without BPF programs, their tests are skipped"
}

# Tests of interfaces are skipped by name without these, so that their absence is no failure either.
tools_for_interfaces() {
  local missing=()
  have ip || missing+=(iproute2)
  have ethtool || missing+=(ethtool)
  [ ${#missing[@]} -gt 0 ] || return 0
  if have apt-get && [ "$(id -u)" = 0 ]; then
    say "installing Debian packages: ${missing[*]}"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 && return 0
  fi
  say "missing: ${missing[*]}: tests of interfaces are skipped"
}

# Cargo in the path may be rustup's, which follows rust-toolchain.toml, or a separate one.
toolchain() {
  local found
  if found=$(cargo --version 2>/dev/null) && enough "$found"; then
    has_parts && return 0
    have rustup || fail "cargo is here but not rustfmt: install rustfmt and clippy of Rust $channel"
  fi
  if ! have rustup; then
    [ -z "${found:-}" ] || say "found $found, Rust $channel is needed"
    install_rustup
  fi
  say "installing Rust $channel"
  rustup toolchain install "$channel" --profile minimal -c rustfmt -c clippy >&2 ||
    fail "Rust $channel can't be fetched: set a mirror in RUSTUP_DIST_SERVER, or install it by hand"
  found=$(cargo --version) && enough "$found" || fail "found $found, Rust $channel is needed"
}

# Checks for the two components that are not part of every toolchain, by file, as starting them takes longer.
has_parts() {
  local bin
  have rustup || { have rustfmt; return; }
  bin=$(dirname "$(rustc --print sysroot)/bin/x")
  [ -x "$bin/rustfmt" ] && [ -x "$bin/cargo-clippy" ]
}

enough() {
  local version=${1#cargo }
  version=${version%% *}
  [ "$(printf '%s\n%s\n' "$channel" "$version" | sort -V | head -1)" = "$channel" ]
}

install_rustup() {
  # Debian 12 has no such package but knows the name from others, so this looks for a version to install.
  if have apt-get && [ "$(id -u)" = 0 ] &&
    apt-cache policy rustup 2>/dev/null | grep -q 'Candidate: [0-9]' &&
    say "installing Debian package: rustup" &&
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rustup >&2; then
    return
  fi
  local arch to server=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}
  arch="$(uname -m)-unknown-linux-gnu"
  to=$(mktemp -d)
  say "installing rustup from $server into ${CARGO_HOME:-$HOME/.cargo}"
  if have curl; then
    curl -fsSL --retry 3 -o "$to/rustup-init" "$server/dist/$arch/rustup-init"
  else
    false
  fi || fail "rustup can't be fetched: install Rust $channel by hand (https://rustup.rs) and try again"
  chmod +x "$to/rustup-init"
  "$to/rustup-init" -y -q --profile minimal --default-toolchain none --no-modify-path >&2
  rm -rf "$to"
}

gate_tools() {
  have cargo-deny && return 0
  say "installing cargo-deny (some minutes, once)"
  cargo install --locked --quiet cargo-deny >&2 ||
    say "cargo-deny can't be installed: the gate will report that licences were not checked"
}

packages "${1:-}"
[ -z "${1:-}" ] || clang_for_bpf
case "${1:-}" in live | lab) tools_for_interfaces ;; esac
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
toolchain
[ "${1:-}" != gate ] || gate_tools
