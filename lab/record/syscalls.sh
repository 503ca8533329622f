#!/usr/bin/env bash
# Records demo/demo.scap: a shell that does harmless things of the kind that intruders do, recorded by our own probe and cut
# down to this shell and what it starts.
#
#   lab/record/syscalls.sh GABION [OUTPUT]     as root; default output: demo/demo.scap of the repository
#
# Debian packages: bash dash coreutils. Nothing of the host is changed but a folder in /tmp, which is removed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
gabion=$(realpath "$1")
output=$(realpath -m "${2:-$here/../../demo/demo.scap}")
[ "$(id -u)" = 0 ] || { echo "record: needs root for the probe: run it as root" >&2; exit 4; }

work=$(mktemp -d /tmp/demo.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/site"
cp /bin/dash "$work/visitor"
cp /bin/dash "$work/site/httpd"
cp /bin/true "$work/site/payload"
echo "nothing" >"$work/site/index.html"

cat >"$work/session" <<'SESSION'
cd site
cat index.html >/dev/null
ls /etc >/dev/null
cat /etc/shadow >/dev/null
./httpd -c 'sh -c "id; uname -a" >/dev/null; true'
./payload
chmod u+s payload
bash -c 'exec 3<>/dev/tcp/127.0.0.1/4444' 2>/dev/null
ln -s /etc/shadow notes
cat notes >/dev/null
rm notes payload
SESSION

"$gabion" probe record "$work/whole.scap" --seconds 6 --calls "$(tr -d ' \n' <<'CALLS'
open,openat,openat2,creat,execve,execveat,clone,clone3,fork,vfork,procexit,connect,socket,close,dup2,dup3,dup,fcntl,chdir,
chmod,fchmodat,fchmod,unlink,unlinkat,symlink,symlinkat,pipe,pipe2,setuid
CALLS
)" &
recording=$!
sleep 3
(cd "$work" && exec env -i PATH=/usr/bin:/bin HOME=/root LANG=C ./visitor session) || true
wait "$recording"
cargo run -q --profile test -p gabion-scap --example subtree -- "$work/whole.scap" "$work/cut.scap" visitor
gzip -9 -n -c "$work/cut.scap" >"$output"
ls -l "$output"
