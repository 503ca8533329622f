#!/usr/bin/env bash
# install.sh BINARY: installs the program with its documents, systemd's units, and the files that create their user and folders.
# DESTDIR, for packagers, is put before every path; PREFIX is /usr by default.
set -euo pipefail
cd "$(dirname "$0")/.."

binary=$1
prefix=${PREFIX:-/usr}
root=${DESTDIR:-}
install -D -m 0755 -s --strip-program="${STRIP:-strip}" "$binary" "$root$prefix/bin/gabion"
scripts/documents.sh "$root$prefix/share/doc/gabion"
for unit in packaging/systemd/*; do
  # Units name the paths of the program and its documents.
  sed "s|/usr/bin/gabion|$prefix/bin/gabion|g; s|/usr/share/doc/gabion|$prefix/share/doc/gabion|g" "$unit" |
    install -D -m 0644 /dev/stdin "$root$prefix/lib/systemd/system/$(basename "$unit")"
done
install -D -m 0644 packaging/sysusers.conf "$root$prefix/lib/sysusers.d/gabion.conf"
install -D -m 0644 packaging/tmpfiles.conf "$root$prefix/lib/tmpfiles.d/gabion.conf"
if [ -z "$root" ]; then
  echo "installed; if systemd runs: systemd-sysusers && systemd-tmpfiles --create && systemctl daemon-reload"
fi
