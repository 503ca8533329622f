#!/usr/bin/env python3
# Compares how rsyslog, syslog-ng and Gabion read random variations of real syslog messages.
"""How many of the fields on which rsyslog and syslog-ng agree does Gabion read in the same way?

  lab/log/variations.py [--seed N] [--count N] [--own] [--show N] [--save FILE] [--without-gabion]

Messages of the corpus and of this script (with --own or without a corpus, the latter alone)
lose, repeat, mangle or change their parts: priority, time, host, tag, text, separators, any byte.
The same datagrams go to the three programs, from a separate address, so that the host in a message
can't be confused with the sender. A field counts if the two agree. --save writes messages and agreed fields,
one a line, as the test `variations` of crates/logs reads them. Ends with 1 when less than 99 % agree.
"""
import argparse, base64, calendar, collections, json, os, pathlib, random, re, socket, subprocess, sys, time
import servers
from servers import CORPUS, GABION, UNPACKED, NotHere, Server, environment, find, free_port, lines, listening, scratch, wait_for

SENDER = "127.0.0.77"
FIELDS = ["facility", "severity", "time", "host", "program", "pid", "msg"]
BAR = 0.99

OWN = """<34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed for lonvick on /dev/pts/8
<13>Feb  5 17:32:18 10.0.0.99 myprog[17]: it is time to make the do-nuts
<86>Dec 24 18:59:59 web1 sshd[24200]: Failed password for invalid user admin from 203.0.113.9 port 38926 ssh2
<38>Jan  3 03:04:05 gate.example.net login(pam_unix)[812]: session opened for user root by (uid=0)
<6>Mar 14 09:26:53 db-2 kernel: [12345.678901] eth0: link is up, 1000 Mbps
<22>Apr  1 00:00:01 mx postfix/smtpd[4711]: 3F2A11: client=unknown[198.51.100.7]
<78>May 31 23:59:59 host1 CRON[999]: (root) CMD (run-parts /etc/cron.hourly)
<189>Jun 15 08:00:00 core-sw %LINK-3-UPDOWN: Interface Gi0/1, changed state to up
<190>42: *Jul  7 07:07:07.777: %SYS-5-CONFIG_I: Configured from console by vty0
<134>Aug  9 10:11:12 fw1 %ASA-6-302013: Built outbound TCP connection 17 for outside:192.0.2.1/443
<14>Sep 19 19:19:19 esx01 vmkernel: cpu3:2097)ScsiDeviceIO: 1234: Cmd(0x4123) to dev failed
<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog 77 ID47 [ex@32473 iut="3" eventID="1011"] An application event
<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - %% It's time to make the do-nuts.
<13>2021-05-06T07:08:09+02:00 laptop app[1]: a time of RFC 3339 in a legacy message
<13>2021-05-06T07:08:09.123456Z laptop app: with a fraction
<30>Nov 11 11:11:11 pi systemd[1]: Started Session 12 of user pi.
<46>Nov  2 01:02:03 relay rsyslogd: [origin software="rsyslogd" swVersion="8.2302.0" x-pid="1" x-info="https://www.rsyslog.com"] start
<13>Oct 11 22:14:15 host {"json": true, "n": 1}
<13>Oct 11 22:14:15 host app: @cee: {"a": "b"}
<13>Oct 11 22:14:15 host last message repeated 3 times
<13>Oct 11 22:14:15 fe80::1 app[2]: over IPv6
<29>Oct 11 22:14:15 mac com.apple.xpc.launchd[1] (com.apple.mdworker): Service exited
<14>Oct 11 22:14:15 win MSWinEventLog: 1 Security 4624 Success Audit
<133>Oct 11 22:14:15 lb haproxy[88]: 192.0.2.4:55000 [11/Oct/2021:22:14:15.123] front back/s1 0/0/1/2/3 200 512 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"
<150>Oct 11 22:14:15 ap1 hostapd: wlan0: STA 00:11:22:33:44:55 IEEE 802.11: associated
<13>Oct 11 22:14:15 host -- MARK --
<5>just some words of a sender without any header
<13>app: no time and no host
""".splitlines()

MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
TIMES = re.compile(rb"(?:\d+: )?[*.]?(?:(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)  ?\d{1,2}(?: \d{4})? \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*)")


def bases(own):
    """Messages to vary: (bytes, share of the draw)."""
    out = [(line.encode(), 4) for line in OWN]
    folder = CORPUS / "sealed"
    if own or not folder.exists():
        return out
    for line in (folder / "messages/messages.jsonl").read_text(errors="surrogateescape").splitlines():
        raw = base64.b64decode(json.loads(line)["raw_b64"])
        # Compressed and truncated bodies differ by the programs' limits, not by how they are read.
        if raw[:1] != b"z" and b">z" not in raw[:6] and 0 < len(raw) < 1500:
            out.append((raw, 2))
    for name in ("Linux", "OpenSSH", "Mac", "Thunderbird", "Apache", "HDFS"):
        text = subprocess.run(["zstd", "-dcq", folder / f"text/{name}_2k.log.zst"], capture_output=True, check=True).stdout
        for n, line in enumerate(text.splitlines()[::20]):
            line = line.rstrip(b"\r")[:1200]
            if name == "Thunderbird":
                line = b" ".join(line.split(b" ")[4:])
            out.append((b"<%d>%s" % (n * 7 % 192, line), 1))
    return out


def a_time(r):
    month, day = r.choice(MONTHS), r.randint(1, 28)
    clock = f"{r.randint(0, 23):02}:{r.randint(0, 59):02}:{r.randint(0, 59):02}"
    date = f"{r.randint(1999, 2027)}-{MONTHS.index(month) + 1:02}-{day:02}"
    return r.choice([
        lambda: f"{month} {day:2} {clock}", lambda: f"{month} {day:2} {clock}", lambda: f"{month} {day:02} {clock}",
        lambda: f"{month} {day} {clock}", lambda: f"{month.upper()} {day:2} {clock}", lambda: f"{month.lower()} {day:2} {clock}",
        lambda: f"{month} {day:2} {r.randint(1999, 2027)} {clock}", lambda: f"{month} {day:2} {clock} {r.randint(1999, 2027)}",
        lambda: f"{month} {day:2} {clock}.{r.randint(0, 999999)}", lambda: f"{month} {day:2} {clock}:", lambda: f" {month} {day:2} {clock}",
        lambda: f"*{month} {day:2} {clock}.{r.randint(100, 999)}:", lambda: f".{month} {day:2} {clock}:", lambda: f"{r.randint(1, 999999)}: {month} {day:2} {clock}:",
        lambda: f"{month} {day:2} {clock} {r.choice(['UTC', 'CET', 'EST', '+01:00', 'PDT:'])}",
        lambda: f"{month} {day:2} {clock[:5]}", lambda: f"{month} 3{r.randint(0, 9)} {clock}", lambda: f"{month} {day:2} 25:61:61",
        lambda: f"{r.choice(['Mon', 'Tue', 'Sun'])} {month} {day:2} {clock} {r.randint(1999, 2027)}", lambda: f"{day} {month} {clock}",
        lambda: f"{date}T{clock}Z", lambda: f"{date}T{clock}+0{r.randint(0, 9)}:00", lambda: f"{date}T{clock}.{r.randint(0, 999999999)}Z",
        lambda: f"{date}T{clock}", lambda: f"{date} {clock}", lambda: f"{date} {clock},{r.randint(0, 999)}", lambda: f"{date}T{clock}-0{r.randint(0, 9)}00",
        lambda: f"{date}T{clock}z", lambda: str(r.randint(10**9, 2 * 10**9)), lambda: f"{r.randint(10**9, 2 * 10**9)}.{r.randint(0, 999)}", lambda: "",
    ])()


def a_host(r):
    return r.choice(["h", "host", "HOST-7", "a.b.example.org", "192.0.2.17", "10.1.2.3:514", "host_7", "host:", "localhost.localdomain", "[192.0.2.1]",
                     "fe80::1%eth0", "2001:db8::2", "[2001:db8::3]", "-", "host/rack1", "dn228/dn228", "host@site", "host,site", "42", "1host", "ho(st)", "h\u00f6st",
                     ".host", "host.", "last", "", "", "", "host name", "host=1", "'host'", "\"host\"", "host;"])


def a_tag(r):
    name = r.choice(["app", "app", "sshd", "postfix/smtpd", "/usr/sbin/cron", "a.b.c", "a-b_c", "prog(pam_unix)", "%ASA-6-302013", "%SYS-5-CONFIG_I", "kernel",
                     "\u00fcber", "x" * 33, "y" * 70, "0", "123", "-", "#tag", "tag@1", "tag,1", "tag=1", "tag;1", "'tag'", "\"tag\"", "tag.", "Tag Two", "<tag>", "{tag}", "(tag)"])
    pid = r.choice(["", "", f"[{r.randint(1, 99999)}]", f"[{r.randint(1, 99999)}]", "[main]", "[]", "[-]", "[1", "[1 2]", "[1][2]", f"({r.randint(1, 999)})", " [7]", "[7] ", "[a.b-c]", "]"])
    end = r.choice([": ", ": ", ": ", ":", " ", ":  ", " : ", "", "::", ":\t", "\t", "- ", " - ", "; ", "=", ", "])
    return name + pid + end


def a_text(r):
    return r.choice(["text", "", " text", "text ", "a: b", "a[1]: b", "[x] y", "{\"a\":1}", "@cee:{\"a\":1}", "\ttext", "\u00e4\u00f6\u00fc", "text: with colon", "last message repeated 2 times",
                     "-- MARK --", "message repeated 2 times: [ x]", "BOM: \ufefftext", "%%", "<13>inner", "a\tb", "x" * 500, "\x1b[31mred", "Oct 11 22:14:15 again"])


def vary(r, raw):
    """One variation of a message: two or three changes."""
    head = re.match(rb"<\d{1,3}>", raw)
    pri, rest = (head[0], raw[head.end():]) if head else (b"", raw)
    stamp = TIMES.match(rest.lstrip(b" "))
    is_5424 = rest.startswith(b"1 ")
    for _ in range(r.choice([1, 1, 2, 2, 3])):
        kind = r.random()
        if kind < 0.12:
            pri = r.choice([b"", b"", b"<0>", b"<%d>" % r.randint(0, 191), b"<%03d>" % r.randint(0, 99), b"<%d>" % r.randint(192, 999), b"<>", b"<1", b"< 13>", b"<-1>", b"<13> ",
                            b"<1234>", b"<1a>", b"13>", b"<<13>", b"<13>>", b"<+3>", b"<13>\t", b" <13>", b"<13>: ", b"<13>1 "])
        elif kind < 0.62 and not is_5424:
            body = rest.lstrip(b" ")
            stamp = TIMES.match(body)
            if stamp:
                parts = re.match(rb"(\S+ +)?(\S+)(.*)", body[stamp.end():].lstrip(b" "), re.S)
                when, host, tag, text = stamp[0], (parts[1] or b"").strip() if parts else b"", parts[2] + b" " if parts else b"", parts[3].lstrip(b" ") if parts else b""
            else:
                when, host, tag, text = b"", b"", b"", body
            what = r.random()
            if what < 0.3:
                when = a_time(r).encode()
            elif what < 0.5:
                host = a_host(r).encode()
            elif what < 0.85:
                tag = a_tag(r).encode()
            else:
                text = a_text(r).encode()
            rest = b" ".join(p for p in (when, host) if p) + (b" " if when or host else b"") + tag + text
        elif kind < 0.72:
            # Separators between words.
            at = [m.start() for m in re.finditer(rb" ", rest[:80])]
            if at:
                n = r.choice(at)
                rest = rest[:n] + r.choice([b"  ", b"\t", b"", b"   ", b":", b": ", b" - "]) + rest[n + 1:]
        elif kind < 0.82:
            at = r.randrange(min(len(rest), 60) + 1)
            rest = r.choice([lambda: rest[:at] + rest[at + 1:], lambda: rest[:at] + bytes([r.choice(b" :[]<>{}()-/.,;@#%=\"'0aZ\t\\")]) + rest[at:],
                             lambda: rest[:at] + bytes([r.randint(32, 126)]) + rest[at + 1:], lambda: rest[:at] + bytes([r.randint(128, 255)]) + rest[at + 1:]])()
        elif kind < 0.87:
            rest = rest[:r.randrange(min(len(rest), 90) + 1)]
        elif kind < 0.91:
            words = rest.split(b" ")
            n = r.randrange(len(words))
            rest = b" ".join(words[:n] + r.choice([[], [words[n]] * 2]) + words[n + 1:])
        elif kind < 0.95:
            rest = rest + r.choice([b"\n", b"\r\n", b"\0", b" ", b"\n\n", b"  \n"])
        else:
            rest = r.choice([b" ", b"  ", b"\t", b": ", b"- ", b"1 ", b"2 "]) + rest
    out = pri + rest
    # Datagrams of several lines are not tested here; and an empty one is not a message.
    return out[:1900] if out.strip(b" \t\r\n\0") else b"<13>x"


class Rsyslog(Server):
    def __init__(self, folder):
        self.port, self.out, tcp = free_port(), folder / "out", free_port()
        values = {"pri": "pri", "time": "timereported\" dateFormat=\"rfc3339", "received": "timegenerated\" dateFormat=\"rfc3339", "host": "hostname", "tag": "syslogtag",
                  "program": "app-name", "pid": "procid", "msg": "msg", "version": "protocol-version", "sd": "structured-data"}
        template = [f'property(name="{v}" format="jsonf" outname="{k}")' if "dateFormat" not in v else f'property(name="{v}" format="jsonf" outname="{k}")' for k, v in values.items()]
        between = ' constant(value=", ") '
        # Raw bytes stay unchanged: JSON's escapes would hide invalid UTF-8.
        (folder / "rsyslog.conf").write_text(f"""global(workDirectory="{folder}" net.enableDNS="off" localHostname="receiver" maxMessageSize="16k"
  parser.escapeControlCharactersOnReceive="off" parser.permitSlashInProgramName="on")
module(load="imudp") module(load="imtcp")
template(name="t" type="list" option.jsonf="off") {{ constant(value="{{") {between.join(template)} constant(value="}}\\n") }}
input(type="imudp" port="{self.port}" address="127.0.0.1")
input(type="imtcp" port="{tcp}" address="127.0.0.1")
action(type="omfile" file="{self.out}" template="t")
""")
        argv = [find("rsyslogd"), "-n", "-f", str(folder / "rsyslog.conf"), "-i", str(folder / "pid")]
        modules = UNPACKED / "usr/lib/x86_64-linux-gnu/rsyslog"
        super().__init__(argv + (["-M", str(modules)] if modules.exists() else []), folder, environment() | {"TZ": "UTC"})
        if not wait_for(lambda: listening(tcp), 20):
            raise NotHere("rsyslogd: does not listen: " + self.stop()["output"].strip())

    @staticmethod
    def fields(row):
        text = lambda t: None if t in ("", "-") else t
        # An invalid priority has no number here, and so agrees with nothing.
        pri = int(row["pri"]) if row["pri"].isdigit() else None
        return {"facility": "invalid" if pri is None else pri // 8, "severity": "invalid" if pri is None else pri % 8, "time": None if row["time"] == row["received"] else seconds(row["time"]),
                "host": None if row["host"] == SENDER else row["host"], "program": text(row["program"]), "pid": text(row["pid"]),
                "msg": text_of(row["msg"]), "received": seconds(row["received"])}


class SyslogNg(Server):
    def __init__(self, folder):
        self.port, self.out, tcp = free_port(), folder / "out", free_port()
        (folder / "syslog-ng.conf").write_text(f"""@version: 3.35
options {{ stats-freq(0); keep-hostname(yes); use-dns(no); log-msg-size(16384); time-zone("UTC"); recv-time-zone("UTC"); send-time-zone("UTC"); }};
source s {{ network(ip(127.0.0.1) port({self.port}) transport("udp") so-rcvbuf(4194304)); network(ip(127.0.0.1) port({tcp}) transport("tcp")); }};
destination d {{ file("{self.out}" template("$(format-json pri=$PRI time=$S_ISODATE received=$R_ISODATE host=$HOST program=$PROGRAM pid=$PID msg=$MSG tags=$TAGS)\\n") template-escape(no) frac-digits(6)); }};
log {{ source(s); destination(d); }};
""")
        argv = [find("syslog-ng"), "-F", "-f", str(folder / "syslog-ng.conf"), "--no-caps", "-R", str(folder / "persist"), "-p", str(folder / "pid"), "-c", str(folder / "control")]
        modules = UNPACKED / "usr/lib/syslog-ng"
        found = [d for d in modules.rglob("*") if d.is_dir() and any(d.glob("libafsocket.so"))] if modules.exists() else []
        super().__init__(argv + (["--module-path", str(found[0])] if found else []), folder, environment() | {"TZ": "UTC"})
        if not wait_for(lambda: listening(tcp), 20):
            raise NotHere("syslog-ng: does not listen: " + self.stop()["output"].strip())

    @staticmethod
    def fields(row):
        pri = int(row.get("pri", 0))
        # A stated time equal to that of receipt means that there is none.
        stated, received = row["time"], row["received"]
        return {"facility": pri // 8, "severity": pri % 8, "time": None if stated == received else seconds(stated), "host": None if row["host"] == SENDER else row["host"],
                "program": row.get("program") or None, "pid": row.get("pid") or None, "msg": text_of(row.get("msg") or "")}


def seconds(text):
    whole = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)?", text)
    try:
        at = time.strptime(whole[1], "%Y-%m-%dT%H:%M:%S")
    except ValueError:
        return f"no such time: {text}"
    zone = whole[2] or "Z"
    east = 0 if zone == "Z" else (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)
    return calendar.timegm(at) - east


class Gabion(Server):
    """Gabion: the messages are sealed, then shown."""
    def __init__(self, folder):
        self.port, self.out = free_port(), folder / "log"
        subprocess.run([GABION, "log", "keygen", "--out", str(folder / "reader")], check=True, capture_output=True)
        self.key = folder / "reader/recipient.key"
        argv = [GABION, "listen", "--udp", f"127.0.0.1:{self.port}", "--log", str(self.out), "--state", str(folder / "state"), "--recipient", str(folder / "reader/recipient.pub")]
        super().__init__(argv, folder)
        if not wait_for(lambda: "listening:" in (folder / "output").read_text(), 20):
            raise SystemExit("gabion does not listen: " + (folder / "output").read_text())

    def rows(self):
        output = subprocess.run([GABION, "log", "show", str(self.out), "--key", str(self.key), "--kind", "message"], capture_output=True, check=True).stdout
        return [json.loads(line) for line in output.splitlines()]

    @staticmethod
    def fields(row):
        return {"facility": row.get("facility", 1), "severity": row.get("severity", 5), "time": seconds(row["stated"]) if "stated" in row else None, "host": row.get("host"),
                "program": row.get("app"), "pid": row.get("pid"), "msg": text_of(row.get("msg", ""))}


def read_rows(path):
    """Lines of JSON; invalid UTF-8 becomes U+FFFD, control characters stay."""
    out = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        out.append(json.loads(line.decode("utf-8", "replace").replace("\\x", "\\u00"), strict=False))
    return out


def text_of(msg):
    """Strips spaces before a text, which depend on the programs' templates, and line ends, which depend on the transport."""
    return msg.lstrip(" ").rstrip("\r\n\0")


def agreed(a, b):
    """Fields that are the same. A missing field counts only if both also agree on the text: otherwise each
    may have missed it for a different reason, and read it as something else."""
    return {f: a[f] for f in FIELDS if a[f] == b[f] and (a[f] is not None or a["msg"] == b["msg"])}


def exchange(messages, ports, counts):
    """Sends the datagrams, some at a time, so that no buffer overflows."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind((SENDER, 0))
        for at in range(0, len(messages), 50):
            piece = messages[at:at + 50]
            for message in piece:
                for port in ports:
                    s.sendto(message, ("127.0.0.1", port))
            for count in counts:
                if not wait_for(lambda: count() >= at + len(piece), 20, 0.005):
                    raise SystemExit(f"of {at + len(piece)} messages only {count()} arrived")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--count", type=int, default=5000)
    options.add_argument("--own", action="store_true", help="vary only this script's own messages")
    options.add_argument("--show", type=int, default=4, help="examples of each kind of difference")
    options.add_argument("--save", help="messages and agreed fields into this file")
    options.add_argument("--without-gabion", action="store_true", help="with --save: only rsyslog and syslog-ng")
    options = options.parse_args()
    r = random.Random(options.seed)
    weighted = bases(options.own)
    messages, seen = [], set()
    while len(messages) < options.count:
        message = vary(r, r.choices([m for m, _ in weighted], [w for _, w in weighted])[0])
        # A newline inside would begin another line of the programs' outputs.
        if message not in seen and b"\n" not in message.rstrip(b"\n\r\0 "):
            seen.add(message)
            messages.append(message)
    with scratch() as a, scratch() as b, scratch() as c:
        try:
            others = [Rsyslog(pathlib.Path(a)), SyslogNg(pathlib.Path(b))]
        except (NotHere, TypeError) as e:
            raise SystemExit(f"variations: needs rsyslog and syslog-ng: {e}")
        ours = None if options.without_gabion else Gabion(pathlib.Path(c))
        counts = [lambda p=p: lines(p.out) for p in others]
        exchange(messages, [p.port for p in others + ([ours] if ours else [])], counts)
        theirs = []
        for other in others:
            other.stop()
            theirs.append([other.fields(row) for row in read_rows(other.out)])
        mine = None
        if ours:
            ours.stop()
            mine = [ours.fields(row) for row in ours.rows()]
        for rows in theirs + ([mine] if mine else []):
            if len(rows) != len(messages):
                raise SystemExit(f"{len(messages)} messages, {len(rows)} rows")
    both = [agreed(x, y) for x, y in zip(*theirs)]
    if options.save:
        with open(options.save, "w") as f:
            for message, fields, row in zip(messages, both, theirs[0]):
                f.write(json.dumps({"raw_b64": base64.b64encode(message).decode(), "received": row["received"], "agreed": fields}, sort_keys=True) + "\n")
    if mine is None:
        return
    total, same, different = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for message, fields, row in zip(messages, both, mine):
        wrong = [f for f in fields if fields[f] != row[f]]
        for f in fields:
            total[f] += 1
            same[f] += fields[f] == row[f]
        if wrong:
            # Kinds: which fields differ, and whether Gabion found one where the others have none.
            kind = tuple((f, "none" if row[f] is None else "ours only" if fields[f] is None else "other") for f in wrong)
            different[kind].append((message, {f: (fields[f], row[f]) for f in wrong}))
    print(f"seed {options.seed}, {len(messages):,} messages, {sum(len(b) for b in both):,} fields on which rsyslog and syslog-ng agree\n")
    print("| field | both agree | same in Gabion | share |\n|---|---|---|---|")
    for f in FIELDS:
        print(f"| {f} | {total[f]:,} of {len(messages):,} | {same[f]:,} | {100 * same[f] / max(total[f], 1):.2f} % |")
    share = sum(same.values()) / sum(total.values())
    print(f"| all | {sum(total.values()):,} | {sum(same.values()):,} | {100 * share:.2f} % |")
    for kind, cases in sorted(different.items(), key=lambda k: -len(k[1])):
        print(f"\n{len(cases)} times: " + ", ".join(f"{f} ({how})" for f, how in kind))
        for message, fields in cases[:options.show]:
            print(f"  {message[:140]!r}")
            for f, (they, we) in fields.items():
                print(f"    {f}: both {str(they)[:80]!r}, ours {str(we)[:80]!r}")
    if share < BAR:
        sys.exit("below 99 %")


if __name__ == "__main__":
    main()
