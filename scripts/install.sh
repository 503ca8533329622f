#!/usr/bin/env bash
# install.sh BINARY: installs the program with its documents, systemd's units, and what makes their user and folders.
# DESTDIR goes before every path, for who makes a package; PREFIX is /usr where nobody says otherwise.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$1
prefix=${PREFIX:-/usr}
root=${DESTDIR:-}
install -D -m 0755 -s --strip-program="${STRIP:-strip}" "$binary" "$root$prefix/bin/gabion"
scripts/documents.sh "$root$prefix/share/doc/gabion"
for unit in packaging/systemd/*; do
  # Units name the program and its documents where they are.
  sed "s|/usr/bin/gabion|$prefix/bin/gabion|g; s|/usr/share/doc/gabion|$prefix/share/doc/gabion|g" "$unit" |
    install -D -m 0644 /dev/stdin "$root$prefix/lib/systemd/system/$(basename "$unit")"
done
install -D -m 0644 packaging/sysusers.conf "$root$prefix/lib/sysusers.d/gabion.conf"
install -D -m 0644 packaging/tmpfiles.conf "$root$prefix/lib/tmpfiles.d/gabion.conf"
if [ -z "$root" ]; then
  echo "installed. Where systemd runs: systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload"
fi
