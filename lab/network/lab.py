#!/usr/bin/env python3
# Repeats the published experiments about the costs of rules, expressions, allocators and threads.
"""Experiments about the cost of detection, each with the figure that was published for Suricata.

  lab/network/lab.py [--quick] [--without-builds]

Traffic is made here (HTTP sessions from a fixed seed) or comes from the corpus if it is there. The script measures
processor seconds of whole processes, and the engine's own costs of rules (`gabion rules cost`). It needs only
python3; rules and captures of the corpus need zstd.
"""
import argparse, json, os, pathlib, platform, random, re, shutil, struct, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
from report import Report, bars, curve, shown

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus"))
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
GABION = os.environ.get("GABION", str(TARGET / "release/gabion"))
OUT = TARGET / "lab"


# --- traffic -----------------------------------------------------------------------------------------

def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Pcap:
    """A capture to which TCP sessions are added."""

    def __init__(self, path):
        self.file = open(path, "wb")
        self.file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        self.us = 1_700_000_000_000_000
        self.packets = 0

    def segment(self, src, dst, sport, dport, seq, ack, flags, payload=b""):
        tcp = struct.pack(">HHIIBBHHH", sport, dport, seq, ack, 0x50, flags, 65535, 0, 0) + payload
        pseudo = src + dst + struct.pack(">BBH", 0, 6, len(tcp))
        tcp = tcp[:16] + struct.pack(">H", checksum(pseudo + tcp)) + tcp[18:]
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0, src, dst)
        ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
        frame = b"\x02\0\0\0\0\2\x02\0\0\0\0\1\x08\0" + ip + tcp
        self.us += 37
        self.file.write(struct.pack("<IIII", self.us // 10**6, self.us % 10**6, len(frame), len(frame)))
        self.file.write(frame)
        self.packets += 1

    def session(self, n, exchanges):
        client, server = struct.pack(">I", 0x0A000001 + n % 60_000), b"\xc0\0\2\x0a"
        sport, cs, ss = 1024 + n % 60_000, 1000, 5000
        there = (client, server, sport, 80)
        back = (server, client, 80, sport)
        self.segment(*there, cs, 0, 2)
        self.segment(*back, ss, cs + 1, 0x12)
        cs, ss = cs + 1, ss + 1
        self.segment(*there, cs, ss, 0x10)
        for request, response in exchanges:
            self.segment(*there, cs, ss, 0x18, request)
            cs += len(request)
            self.segment(*back, ss, cs, 0x18, response)
            ss += len(response)
            self.segment(*there, cs, ss, 0x10)
        self.segment(*there, cs, ss, 0x11)
        self.segment(*back, ss, cs + 1, 0x11)
        self.segment(*there, cs + 1, ss + 1, 0x10)


AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0",
          "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0",
          "curl/7.88.1", "Wget/1.21.3"]
OLD = "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; SV1)"


def http_capture(path, requests):
    """Requests: four in five come from the old browser, one in twenty posts to a .php."""
    rng = random.Random(7)
    pcap = Pcap(path)
    done = 0
    while done < requests:
        exchanges = []
        for _ in range(min(5, requests - done)):
            posts = rng.random() < 0.05
            agent = OLD if rng.random() < 0.8 else rng.choice(AGENTS)
            name = "".join(rng.choice("abdefghiklmnoprstuvw") for _ in range(12))
            line = f"POST /{name}.php HTTP/1.0" if posts else f"GET /{name}/index.html?q={rng.random()} HTTP/1.1"
            body = b"name=value" if posts else b""
            head = (f"{line}\r\nHost: www.example.com\r\nUser-Agent: {agent}\r\nAccept: */*\r\n"
                    f"Accept-Language: en\r\nReferer: http://www.example.com/{name}\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n")
            answer = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\nContent-Length: 200\r\n\r\n"
            exchanges.append((head.encode() + body, answer + bytes(rng.choices(b"abcdefgh <>/", k=200))))
        done += len(exchanges)
        pcap.session(done // 5, exchanges)
    pcap.file.close()
    return pcap.packets


# --- measuring ---------------------------------------------------------------------------------------

def cpu(argv, runs=3, env=None):
    """Lowest processor and wall seconds of some runs, with peak MiB and output."""
    best = None
    for _ in range(runs):
        with tempfile.TemporaryFile() as output:
            start = time.monotonic()
            child = subprocess.Popen(argv, stdout=output, stderr=subprocess.STDOUT, env=env)
            _, status, usage = os.wait4(child.pid, 0)
            wall = time.monotonic() - start
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            text = output.read().decode(errors="replace")
        r = {"cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "rss": usage.ru_maxrss / 1024,
             "exit": child.returncode, "output": text}
        if best is None:
            best = r
        best = {**(r if r["cpu"] < best["cpu"] else best), "wall": min(r["wall"], best["wall"])}
    return best


def costs(rules, capture, sets=(), runs=5):
    """The costs of each rule, from the run in which others disturbed it least."""
    best = {}
    for _ in range(runs):
        for sid, r in rule_rows(account(rules, capture, sets)).items():
            if sid not in best or r["ticks"] < best[sid]["ticks"]:
                best[sid] = r
    return best


def account(rules, capture, sets):
    argv = [GABION, "rules", "cost", "--json", "-k", "none", "-S", str(rules), str(capture)]
    for s in sets:
        argv += ["--set", s]
    r = subprocess.run(argv, capture_output=True, text=True)
    if r.returncode not in (0, 1):
        raise SystemExit(f"lab: {' '.join(argv)}: exit {r.returncode}: {r.stderr.strip()[:300]}")
    return json.loads(r.stdout)


def rule_rows(account):
    rules = account["costs"]["rules"]
    return {r["sid"]: {**r, "ticks": r["ticks_match"] + r["ticks_no_match"]} for r in rules}


# --- experiments -------------------------------------------------------------------------------------

def write(path, text):
    path.write_text(text)
    return path


# The published script, in today's syntax: its data comes from a library, and its rule has a hook that
# decides when it runs.
LUA_SCRIPT = '''local http = require "suricata.http"
function init (sig)
    return {}
end
function match(args)
    local tx, err = http.get_tx()
    if not tx then
        return 0
    end
    local a = tx:request_line()
    if a and #a > 0 then
        if a:find("^POST%s+/.*%.php%s+HTTP/1.0$") then
            return 1
        end
    end
    return 0
end
'''


def average(ticks, times):
    return round(ticks / times) if times else 0


def per_check(c):
    return average(c.get("ticks", 0), c.get("checks", 0))


def times(a, b):
    return a / b if b else float("inf")


def user_agent(report, work, capture, requests):
    header = ('content:"User-Agent: "; http_header; nocase; content:"{0}"; http_header; distance:0; '
              'pcre:"/User-Agent:[^\\n]*{0}/iH";')
    cases = [
        ("rare, header + pcre", 1, header.format("abc"), 209_752, "209,752 checks, 0 matches"),
        ("rare, http.user_agent", 2, 'content:"abc"; http_user_agent;', 0, "0 checks; the run 10 % shorter"),
        ("common, header + pcre", 3, header.format("MSIE 6"), None, "many more checks than matches"),
        ("common, http.user_agent", 4, 'content:"MSIE 6"; http_user_agent;', 10_000,
         "over 10,000 checks, each a match; the run 10 % shorter"),
    ]
    rows, checks, ticks, cpus = [], [], [], []
    for name, sid, body, counted, published in cases:
        rules = write(work / f"ua{sid}.rules",
                      f'alert http any any -> any any (msg:"{name}"; {body} sid:{sid}; rev:1;)\n')
        c = costs(rules, capture).get(sid, {})
        run = cpu([GABION, "read", "-q", "-k", "none", "-S", str(rules), str(capture)], runs=7)
        rows.append([name, f"{c.get('checks', 0):,}", f"{c.get('matches', 0):,}", f"{per_check(c):,}",
                     f"{c.get('ticks', 0) / 1e6:.2f}", f"{run['cpu']:.3f}", published])
        checks.append((name, c.get("checks", 0), counted))
        ticks.append((name, c.get("ticks", 0) / 1e6))
        cpus.append(run["cpu"])
    dearer = times(ticks[2][1], ticks[3][1])
    report.section(
        "One buffer, or all headers", f"{requests:,} HTTP requests. The first pair of rules never matches, the second "
        "matches in four of five requests.",
        ["rule", "checks", "matches", "ticks a check", "million ticks", "CPU-s", "published"], rows,
        [bars("Checks, here", "times asked", [(n, ours) for n, ours, _ in checks]),
         bars("Checks, Suricata 1.3", "times asked", [(n, theirs) for n, _, theirs in checks], published=True),
         bars("Total cost, here", "million ticks", ticks)],
        f"{dearer:.1f} x", f"Searched in all headers with an expression, the common browser costs {dearer:.1f} times as much "
        "as with http.user_agent; the rare one is checked in every request, or never.",
        f"Whole runs: {100 * (times(cpus[0], cpus[1]) - 1):+.0f} % (rare) and {100 * (times(cpus[2], cpus[3]) - 1):+.0f} % "
        "(common) processor time with the header rule; published: about 10 %. Here a rule is checked once per request, "
        "when the buffer is complete and its fast pattern occurred: hence far fewer checks than published.", (6,))


def lua(report, work, capture):
    write(work / "test2.lua", LUA_SCRIPT)
    post = 'content:"POST"; http_method; content:".php"; http_uri;'
    regex = 'pcre:"/^POST\\s+\\/.*\\.php\\s+HTTP\\/1\\.0\\r\\n/m";'
    cases = [  # name, body, published average ticks: all, of a match, of no match
        ("pure Lua", "lua:test2.lua;", 8812.31, 15841.85, 8807.01),
        ("content, then Lua", f"{post} lua:test2.lua;", 10682.71, 35497.08, 10194.56),
        ("content, pcre, then Lua", f"{post} {regex} lua:test2.lua;", 11638.15, 39842.23, 9424.83),
        ("content, then pcre", f"{post} {regex}", 8536.46, 20074.97, 7630.97),
        ("pure pcre", regex, 12113.53, 7198.08, 12114.28),
    ]
    rules = write(work / "lua.rules", "".join(
        f'alert http{"1:request_line" if "lua:" in body else ""} any any -> any any (msg:"{name}"; {body} sid:{sid};)\n'
        for sid, (name, body, *_) in enumerate(cases, 1)))
    found = costs(rules, capture)
    missing = [sid for sid in range(1, 6) if not found.get(sid, {}).get("checks")]
    if missing:
        raise SystemExit(f"lab: rules {missing} of {rules} were never checked: gabion rules check {rules} shows why")
    rows, ours, total = [], [], []
    for sid, (name, _, every, match, no_match) in enumerate(cases, 1):
        c = found.get(sid, {})
        checks, matches = c.get("checks", 0), c.get("matches", 0)
        rows.append([name, f"{checks:,}", f"{matches:,}", f"{per_check(c):,}",
                     f"{average(c.get('ticks_match', 0), matches):,}",
                     f"{average(c.get('ticks_no_match', 0), checks - matches):,}", f"{c.get('ticks', 0) / 1e6:.1f}",
                     f"{every:,.0f}", f"{match:,.0f}", f"{no_match:,.0f}"])
        ours.append((name, per_check(c)))
        total.append((name, c.get("ticks", 0) / 1e6))
    factor = times(total[0][1], total[3][1])
    report.section(
        "Lua, expressions and contents", "The five rules of the first article about Lua in rules: does a POST request a .php "
        "with HTTP/1.0?",
        ["rule", "checks", "matches", "ticks a check", "of a match", "of no match", "million ticks",
         "published", "of a match", "of no match"], rows,
        [bars("Ticks a check, here", "", ours),
         bars("Ticks a check, Suricata 1.4 beta", "", [(n, every) for n, _, every, *_ in cases], published=True),
         bars("Total cost, here", "million ticks", total)],
        f"{factor:,.0f} x", f"In total, the pure Lua rule costs {factor:,.0f} times the rule of contents and an expression: "
        "with contents first, the script runs for one request in twenty.",
        "Contents let few checks through, and these are expensive: compare the sum, not only the average. "
        "Ticks are the processor's time stamp counter, there and here: on a busy machine they include the work of others.")


def jit(report, work, capture):
    body = "".join(
        f'alert http any any -> any any (msg:"jit"; flow:to_server; pcre:"/^{m}\\s[^\\n]*{w}[a-z0-9]*\\.(php|asp|cgi|html?)/U"; sid:{n};)\n'
        f'alert http any any -> any any (msg:"jit"; flow:to_server; pcre:"/User-Agent\\x3a[^\\n]*({w}|MSIE\\s{n}\\.\\d+b)[^\\n]*/H"; sid:{n + 100};)\n'
        for n, (m, w) in enumerate([(m, w) for m in ("GET", "POST", "PUT") for w in ("ab", "login", "x[0-9]", "(a|b)+c")], 1))
    rules = write(work / "jit.rules", body)
    rows, ours = [], []
    base = cpu([GABION, "read", "-q", "-k", "none", str(capture)])["cpu"]
    for name, setting, published in (("with JIT", "pcre.jit=yes", "53 s"),
                                     ("without JIT", "pcre.jit=no", "72, 78 and 80 s by build")):
        argv = [GABION, "read", "-q", "-k", "none", "--set", setting, "-S", str(rules), str(capture)]
        r = cpu(argv, runs=5)
        c = costs(rules, capture, [setting])
        ticks = sum(v["ticks"] for v in c.values())
        rows.append([name, f"{r['cpu']:.3f}", f"{max(r['cpu'] - base, 0):.3f}", f"{ticks / 1e6:,.0f}", published])
        ours.append((name, r["cpu"], ticks))
    ratio, deep = times(ours[1][1], ours[0][1]), times(ours[1][2], ours[0][2])
    report.section(
        "Expressions compiled or interpreted", "24 rules that are only an expression, on the same requests; "
        "the published experiment used 11,972 rules on 416 MB.",
        ["", "CPU-s of the run", "net of no rules", "million ticks in rules", "published"], rows,
        [bars("CPU seconds, here", "", [(n, v) for n, v, _ in ours]),
         bars("Seconds, Suricata 1.1", "", [("with JIT", 53), ("without, -O3", 72), ("without, distribution", 78), ("without, -O2", 80)], published=True)],
        f"{ratio:.2f} x", f"Without JIT the run takes {ratio:.2f} times the processor time; published 1.36 to 1.51.",
        f"In the rules alone: {deep:.2f} times the ticks.", (4,))


def bombs(report, work):
    capture = work / "letters.pcap"
    if not capture.exists():
        pcap = Pcap(capture)
        head = b"POST /form HTTP/1.1\r\nHost: www.example.com\r\nContent-Length: 300\r\n\r\n"
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        for n in range(100):
            pcap.session(n, [(head + b"a" * 300, answer)] * 5)
        pcap.file.close()
    cases = [("(a+)+[bc]", "(a+)+[bc]"), ("(a|aa)+[bc]", "(a|aa)+[bc]"), ("(.*a){20}[bc]", "(.*a){20}[bc]"), ("a plain word", "neverthere")]
    rows, ours = [], []
    for n, (name, pattern) in enumerate(cases, 1):
        rules = write(work / f"bomb{n}.rules",
                      f'alert http any any -> any any (msg:"bomb"; http.request_body; pcre:"/{pattern}/"; sid:{n};)\n')
        c = costs(rules, capture).get(n, {})
        r = cpu([GABION, "read", "-q", "-k", "none", "-S", str(rules), str(capture)], runs=1)
        rows.append([name, f"{c.get('checks', 0):,}", f"{per_check(c):,}", f"{r['cpu']:.2f}", r["exit"]])
        ours.append((name, per_check(c)))
    worst = max(v for _, v in ours[:-1])
    report.section(
        "Expressions that explode", "500 requests whose bodies are the letter a 300 times. There are more ways to split this "
        "than atoms in the world, and three expressions that would try them all.",
        ["expression", "checks", "ticks a check", "CPU-s", "exit"], rows, [bars("Ticks a check, here", "", ours)],
        f"{times(worst, ours[-1][1]):,.0f} x", f"The worst costs {times(worst, ours[-1][1]):,.0f} times a plain word: "
        "expensive, but never endless.", "Searches end at pcre.match-limit (3,500 steps unless configured) and are counted.")


def bench(work):
    """The corpus's captures and rules, decompressed; None without the corpus."""
    folder = CORPUS / "bench"
    if not folder.is_dir():
        return None
    files = {}
    for name, source in [("mixed", folder / "mixed.pcap.zst"), ("flood", folder / "mpm-flood.pcap.zst"),
                         ("plain", folder / "mpm-plain.pcap.zst"), ("rules", CORPUS / "rules/emerging-all.rules.zst")]:
        files[name] = work / source.name.removesuffix(".zst")
        if not files[name].exists():
            subprocess.run(["zstd", "-dqf", str(source), "-o", str(files[name])], check=True)
    return files


def flood(report, files):
    read = lambda *more: [GABION, "read", "-q", "-k", "none", *map(str, more)]
    base = cpu(read("-S", files["rules"], ROOT / "demo/demo.pcap"))["cpu"]
    rows, ours = [], []
    for name, published in (("plain", 1.22), ("flood", 3.45)):
        net = cpu(read("-S", files["rules"], files[name]))["cpu"] - base
        rows.append([name, f"{net:.2f}", f"{published:.2f}"])
        ours.append((name, max(net, 0.001)))
    ratio = times(ours[1][1], ours[0][1])
    report.section(
        "Traffic made to hit the pattern matcher", "67,500 packets whose URIs are made of the rules' own "
        "patterns, against as many of random letters; Emerging Threats rules.",
        ["traffic", "CPU-s net of loading", "Suricata 8.0.7"], rows,
        [bars("CPU seconds, here", "net of loading", ours),
         bars("CPU seconds, Suricata 8.0.7", "net of loading", [("plain", 1.22), ("flood", 3.45)], published=True)],
        f"{ratio:.1f} x", f"The flood costs {ratio:.1f} times the plain traffic (Suricata 2.8 times, with its own "
        "matcher 8), and less than its plain traffic." if ours[1][1] < 1.22 else
        f"The flood costs {ratio:.1f} times the plain traffic (Suricata 2.8 times, with its own matcher 8).")


def dearest(report, files, capture):
    found = sorted(costs(files["rules"], capture).values(), key=lambda r: -r.get("ticks", 0))
    total = sum(r.get("ticks", 0) for r in found) or 1
    text = files["rules"].read_text(errors="replace")
    names = {int(sid): msg for msg, sid in re.findall(r'msg:"([^"]*)".*?[; ]sid:(\d+);', text)}
    rows = [[r["sid"], names.get(r["sid"], "")[:70], f"{r['checks']:,}", f"{r['matches']:,}", f"{per_check(r):,}",
             f"{100 * r['ticks'] / total:.1f} %"] for r in found[:15]]
    first = sum(r["ticks"] for r in found[:15]) / total
    report.section(
        "The most expensive rules", "The Emerging Threats rules on the HTTP requests, most expensive first, as gabion rules cost "
        "shows for any capture.",
        ["sid", "message", "checks", "matches", "ticks a check", "share"], rows,
        [bars("Share of all ticks spent in rules", "%", [(r["sid"], 100 * r["ticks"] / total) for r in found[:15]])],
        f"{100 * first:.0f} %", f"Fifteen of {len(found):,} checked rules take {100 * first:.0f} % of the time "
        "spent in rules.", text_columns=(1,))


def read_with(files, workers, out):
    return [GABION, "read", "--json", "-k", "none", "-S", str(files["rules"]), "-l", out, "--overwrite", "--workers", str(workers),
            str(files["mixed"])]


def workers(report, files):
    rows, runs = [], {}
    for n in (1, 2, 4, 8):
        with tempfile.TemporaryDirectory() as out:
            r = cpu(read_with(files, n, out), runs=3 if n < 4 else 1)
        r["json"] = json.loads(r["output"][r["output"].index("{"):])
        runs[n] = r
    packets, first = runs[1]["json"]["packets"], runs[1]
    for n, r in runs.items():
        summary = r["json"]
        per = lambda key: f"{summary.get(key, 0) / packets:.4f}" if n > 1 else "0"
        locks, held = summary.get("queue_locks", 0), summary.get("queue_locks_contended", 0)
        rows.append([n, f"{r['wall']:.2f}", f"{first['wall'] / r['wall']:.2f}", f"{r['cpu']:.2f}",
                     f"{100 * (r['cpu'] / first['cpu'] - 1):+.0f} %", per("queue_locks"),
                     f"{100 * held / locks:.1f} %" if locks else "-", per("budget_moves"),
                     f"{summary.get('shared_state_uses', 0):,}", f"{summary.get('shared_state_waits', 0):,}", f"{r['rss']:.0f}",
                     f"{summary['alerts']:,}"])
    # The work of all workers grows, as each one has to skip the packets of others: a + b n.
    spent = lambda n, kind: sum(t["cpu_us"] for t in runs[n]["json"]["threads"] if t["name"].startswith(kind)) / 1e6
    step = max(spent(8, "worker") - spent(2, "worker"), 0) / 6
    work = max(spent(2, "worker") - 2 * step, 0.01)
    reader, writer = spent(2, "reader"), spent(2, "writer")
    load = cpu([GABION, "read", "-q", "-S", str(files["rules"]), str(ROOT / "demo/demo.pcap")])
    one = max(first["cpu"] - load["cpu"], 0.01)
    predict = lambda n: one / max(reader, writer, work / n + step) if n > 1 else 1.0
    points = [(n, min(predict(n), n)) for n in range(1, 25)]
    full = next((n for n in range(1, 25) if max(reader, writer) >= work / n + step), None)
    limit = "the reader" if reader > writer else "the writer"
    net = {n: max(r["wall"] - load["wall"], 0.01) for n, r in runs.items()}
    measured = [(n, net[1] / net[n]) for n in (1, 2) if n <= os.cpu_count()]
    at24 = points[-1][1]
    same = "equal" if len({r["json"]["alerts"] for r in runs.values()}) == 1 else "DIFFERENT"
    report.section(
        "Workers, and what they share", "The mixed capture of the corpus, Emerging Threats rules, EVE and fast.log written. "
        f"One worker is one thread that reads, works and writes. This machine has {os.cpu_count()} processors: rows with "
        "more workers show the cost of sharing, not their speed, and wall time means little when others use the machine too.",
        ["workers", "wall s", "times one", "CPU-s", "more CPU", "queue locks a packet", "contended", "budget draws a packet",
         "uses of shared state", "of these waited", "MiB", "alerts"], rows,
        [bars("CPU seconds of each thread with two workers", "", [(t["name"], t["cpu_us"] / 1e6) for t in runs[2]["json"]["threads"]]),
         curve("Speed-up over one, net of loading: predicted, measured (dots), ideal (dashed)", points, measured, 24)],
        f"{at24:.0f} x", f"24 processors would be {at24:.1f} times as fast as one, reading one capture"
        + (f": from {full} workers on {limit} is full." if full else ".")
        + f" Findings: {same} with 1, 2, 4 and 8 workers.",
        f"Locks: {runs[2]['json'].get('queue_locks', 0) / packets:.4f} a packet with two workers, all of them on queues, per "
        "batch and not per packet. Shared writes a packet: each worker stores its position in a cache line of its own, which "
        f"others read only when they wait. Prediction: {one:.2f} s of one worker net of loading, over the busiest of reader ({reader:.2f} s), writer ({writer:.2f} s) and a "
        f"worker ({work:.2f} s / n + {step:.3f} s for skipping packets of others, from the runs with 2 and 8). "
        "Published: 1.1 peaked at 4 processors and then had contention (flow queue, thresholds, tags: each a lock per packet "
        "or event); 1.3 scaled up to 24.")


def allocators(report, files, builds):
    if not builds:
        return
    rows, ours = [], []
    for name, feature in (("mimalloc (default)", None), ("jemalloc", "heap-profile"), ("C library", "system-allocator")):
        binary = GABION
        if feature:
            subprocess.run(["cargo", "build", "--release", "--locked", "-q", "-p", "gabion", "--features", feature],
                           check=True, cwd=ROOT)
            binary = str(OUT / f"gabion-{feature}")
            shutil.copy2(TARGET / "release/gabion", binary)
        found = []
        for n in (1, 2):
            with tempfile.TemporaryDirectory() as out:
                found.append(cpu([binary, *read_with(files, n, out)[1:]]))
        rows.append([name, *(f"{r['cpu']:.2f}" for r in found), *(f"{r['rss']:.0f}" for r in found)])
        ours.append((name, found[0]["cpu"], found[0]["rss"]))
    # The usual program is put back in its place; nothing is compiled for that.
    subprocess.run(["cargo", "build", "--release", "--locked", "-q", "-p", "gabion"], check=True, cwd=ROOT)
    slowest, fastest = max(v for _, v, _ in ours), min(v for _, v, _ in ours)
    report.section(
        "Allocators", "The mixed capture, Emerging Threats rules, EVE and fast.log written.",
        ["allocator", "CPU-s, 1 worker", "CPU-s, 2 workers", "MiB, 1 worker", "MiB, 2 workers"], rows,
        [bars("CPU seconds, here", "one worker", [(n, v) for n, v, _ in ours]),
         bars("Peak memory, here", "MiB, one worker", [(n, m) for n, _, m in ours])],
        f"{100 * (slowest / fastest - 1):.0f} %", f"The slowest takes {100 * (slowest / fastest - 1):.0f} % more than the fastest.",
        "Published: tcmalloc \"a few percent more speed\" than the C library's; of jemalloc \"may certainly be worth a shot\". "
        "After a start phase little is allocated per packet here, so there is little to gain.")


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--quick", action="store_true", help="a tenth of the traffic, nothing of the corpus")
    a.add_argument("--without-builds", action="store_true", help="no binaries with other allocators")
    o = a.parse_args()
    work = OUT / "network"
    work.mkdir(parents=True, exist_ok=True)
    requests = 1_250 if o.quick else 12_500
    capture = work / f"http-{requests}.pcap"
    if not capture.exists():
        http_capture(capture, requests)
    version = subprocess.run([GABION, "--version"], capture_output=True, text=True).stdout.strip()
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.machine())
    report = Report("What detection costs", [
        f"{version} on {os.cpu_count()} processors ({model}), {time.strftime('%Y-%m-%d')}.",
        "The published figures are of Suricata 1.1 to 1.4 on the machines of their time, unless noted otherwise: compare the "
        "shapes and ratios, not the seconds."])
    user_agent(report, work, capture, requests)
    os.chdir(work)  # scripts are searched in the folder of their rules
    lua(report, work, capture)
    jit(report, work, capture)
    bombs(report, work)
    files = None if o.quick else bench(work)
    if files:
        dearest(report, files, capture)
        flood(report, files)
        workers(report, files)
        allocators(report, files, not o.without_builds)
    elif not o.quick:
        print(f"\nskipped: no corpus at {CORPUS} (set GABION_CORPUS): it has rules and captures of many megabytes")
    page = OUT / "network.html"
    page.write_text(report.html())
    print(f"\nwith charts: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
