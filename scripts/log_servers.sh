#!/usr/bin/env bash
# log_servers.sh DIR: unpacks Debian's rsyslog and syslog-ng into DIR, for comparisons. They can't be installed
# together, and need not be installed at all. It reports missing packages and ends with 3 if there is no apt.
set -euo pipefail
to=$1
packages=(rsyslog rsyslog-relp rsyslog-openssl syslog-ng-core libestr0 libfastjson4 liblognorm5 librelp0 libivykis0 libnet1 libelogind0
  libpcre3 libwrap0)
[ -e "$to/.done" ] && exit 0
command -v apt-get >/dev/null && command -v dpkg >/dev/null || { echo "log servers: no apt-get here: nothing to compare with" >&2; exit 3; }
mkdir -p "$to/debs"
(
  cd "$to/debs"
  for package in "${packages[@]}"; do
    ls "$package"_*.deb >/dev/null 2>&1 || apt-get download -qq "$package" >/dev/null 2>&1 ||
      echo "log servers: $package can't be fetched" >&2
  done
)
for deb in "$to"/debs/*.deb; do
  [ -e "$deb" ] || { echo "log servers: nothing could be fetched: nothing to compare with" >&2; exit 3; }
  dpkg -x "$deb" "$to"
done
touch "$to/.done"
