#!/usr/bin/env python3
# The published experiments about the costs of rules, expressions, allocators and threads, repeated.
"""Experiments about the cost of detection, each with the figure that was published for Suricata.

  lab/network/lab.py [--quick] [--without-builds]

Traffic is made here (HTTP sessions from a fixed seed) or comes from the corpus where that is. Measured are
processor seconds of whole processes, and the engine's own account of rules (`gabion rules cost`). Nothing
but python3 is needed; rules and captures of the corpus need zstd.
"""
import argparse, html, json, os, pathlib, random, re, struct, subprocess, sys, tempfile, time

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
    """A capture that grows by TCP sessions."""

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
    """Requests of which four in five come from the old browser, one in twenty posts to a .php."""
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
    """Least processor and wall seconds, peak MiB of some runs, and what was said last."""
    best = None
    for _ in range(runs):
        with tempfile.TemporaryFile() as said:
            start = time.monotonic()
            child = subprocess.Popen(argv, stdout=said, stderr=subprocess.STDOUT, env=env)
            _, status, usage = os.wait4(child.pid, 0)
            wall = time.monotonic() - start
            child.returncode = os.waitstatus_to_exitcode(status)
            said.seek(0)
            text = said.read().decode(errors="replace")
        r = {"cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "rss": usage.ru_maxrss / 1024,
             "exit": child.returncode, "said": text}
        if best is None:
            best = r
        best = {**(r if r["cpu"] < best["cpu"] else best), "wall": min(r["wall"], best["wall"])}
    return best


def costs(rules, capture, sets=()):
    """The account of each rule: sid -> checks, matches, ticks."""
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


class Report:
    def __init__(self):
        self.sections = []

    def section(self, title, why, head, rows, bars=None, note=""):
        self.sections.append((title, why, head, rows, bars, note))
        print(f"\n{title}\n  {why}")
        widths = [max(len(str(x)) for x in column) for column in zip(head, *rows)]
        for row in [head, *rows]:
            print("  " + "  ".join(str(x).rjust(w) if i else str(x).ljust(w)
                                   for i, (x, w) in enumerate(zip(row, widths))))
        if note:
            print(f"  {note}")
        sys.stdout.flush()

    def html(self):
        parts = ["<!doctype html><meta charset=utf-8><title>What detection costs</title><style>",
                 "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}",
                 "table{border-collapse:collapse;margin:.7em 0}td,th{padding:.25em .8em;text-align:right;",
                 "border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}svg{display:block}",
                 "p.why{color:#555}p.note{font-size:90%}</style><h1>What detection costs</h1>",
                 f"<p>{html.escape(subprocess.run([GABION, '--version'], capture_output=True, text=True).stdout)}"
                 f", {os.cpu_count()} processors, {time.strftime('%Y-%m-%d')}. Published figures are of Suricata "
                 "1.1 to 1.4 on the machines of their time: compare the ratios, not the seconds.</p>"]
        for title, why, head, rows, bars, note in self.sections:
            parts.append(f"<h2>{html.escape(title)}</h2><p class=why>{html.escape(why)}</p><table><tr>")
            parts += [f"<th>{html.escape(str(h))}</th>" for h in head]
            parts.append("</tr>")
            for row in rows:
                parts.append("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in row) + "</tr>")
            parts.append("</table>")
            if bars:
                parts.append(chart(*bars))
            if note:
                parts.append(f"<p class=note>{html.escape(note)}</p>")
        return "".join(parts)


def chart(unit, values):
    """Horizontal bars as SVG: (label, value)."""
    values = [(str(k), float(v)) for k, v in values]
    most = max((v for _, v in values), default=1) or 1
    rows = []
    for i, (label, v) in enumerate(values):
        y = 8 + i * 26
        w = 380 * v / most
        shown = f"{v:,.0f}" if v >= 100 else f"{v:.3g}"
        rows.append(f'<text x="250" y="{y + 14}" text-anchor="end">{html.escape(label)}</text>'
                    f'<rect x="260" y="{y}" width="{w:.1f}" height="19" fill="#3b6ea5"/>'
                    f'<text x="{266 + w:.1f}" y="{y + 14}">{shown} {html.escape(unit)}</text>')
    return (f'<svg width="760" height="{16 + 26 * len(values)}" font-family="system-ui,sans-serif" '
            f'font-size="13" role="img">{"".join(rows)}</svg>')


# --- experiments -------------------------------------------------------------------------------------

def write(path, text):
    path.write_text(text)
    return path


def user_agent(report, work, capture, requests):
    rows, bars = [], []
    cases = [
        ("rare, http.header + pcre", 1, 'content:"User-Agent: "; http_header; nocase; content:"abc"; http_header; '
         'distance:0; pcre:"/User-Agent:[^\\n]*abc/iH";', "209,752 checks"),
        ("rare, http.user_agent", 2, 'content:"abc"; http_user_agent;', "0 checks, run 10 % shorter"),
        ("common, http.header + pcre", 3, 'content:"User-Agent: "; http_header; nocase; content:"MSIE 6"; '
         'http_header; distance:0; pcre:"/User-Agent:[^\\n]*MSIE 6/iH";', "many times its 10,000 matches"),
        ("common, http.user_agent", 4, 'content:"MSIE 6"; http_user_agent;', "each check a match, 10 % shorter"),
    ]
    for name, sid, body, published in cases:
        rules = write(work / f"ua{sid}.rules",
                      f'alert http any any -> any any (msg:"{name}"; {body} sid:{sid}; rev:1;)\n')
        c = rule_rows(costs(rules, capture)).get(sid, {})
        argv = [GABION, "read", "-q", "-k", "none", "-S", str(rules), str(capture)]
        run = cpu(argv)
        rows.append([name, c.get("checks", 0), c.get("matches", 0), f"{average(c):,}", f"{run['cpu']:.3f}", published])
        bars.append((name, c.get("ticks", 0) / 1e6))
    report.section("User-Agent: one buffer or all headers",
                   f"{requests:,} HTTP requests; the first pair of rules never matches, the second in four of five.",
                   ["rule", "checks", "matches", "ticks a check", "CPU-s", "published"], rows,
                   ("million ticks", bars))


def average(c):
    return round(c.get("ticks", 0) / max(c.get("checks", 0), 1))


def lua(report, work, capture):
    script = '''function init (args)
    local needs = {}
    needs["http.request_line"] = tostring(true)
    return needs
end
function match(args)
    local a = tostring(args["http.request_line"])
    if #a > 0 then
        if a:find("^POST%s+/.*%.php%s+HTTP/1.0$") then
            return 1
        end
    end
    return 0
end
return 0
'''
    write(work / "test2.lua", script)
    post = 'content:"POST"; http_method; content:".php"; http_uri;'
    regex = 'pcre:"/^POST\\s+\\/.*\\.php\\s+HTTP\\/1\\.0\\r\\n/m";'
    # The peer gives the line's buffer to scripts as payload where no other is asked for; `http.request_line`
    # names it here, so that script and expression see the same bytes.
    cases = [
        (1, "pure Lua", "lua:test2.lua;", 8812.31),
        (2, "content, then Lua", f"{post} lua:test2.lua;", 10682.71),
        (3, "content, pcre, then Lua", f"{post} {regex} lua:test2.lua;", 11638.15),
        (4, "content, then pcre", f"{post} {regex}", 8536.46),
        (5, "pure pcre", regex, 12113.53),
    ]
    rules = write(work / "lua.rules", "".join(
        f'alert http any any -> any any (msg:"{name}"; {body} sid:{sid};)\n' for sid, name, body, _ in cases))
    found = rule_rows(costs(rules, capture, ["security.lua.allow-rules=yes"]))
    rows, bars = [], []
    for sid, name, _, ticks in cases:
        c = found.get(sid)
        if c is None:
            rows.append([name, "-", "-", "-", f"{ticks:,.0f}"])
            continue
        rows.append([name, c["checks"], c["matches"], f"{average(c):,}", f"{ticks:,.0f}"])
        bars.append((name, average(c)))
    report.section("Lua, expressions and contents", "The five rules of the first look at Lua in rules.",
                   ["rule", "checks", "matches", "ticks a check", "published ticks"], rows, ("ticks a check", bars),
                   "A line without figures: the rule was never checked, or scripts are refused here.")


def jit(report, work, capture):
    body = "".join(
        f'alert http any any -> any any (msg:"jit"; flow:to_server; pcre:"/^{m}\\s[^\\n]*{w}[a-z0-9]*\\.(php|asp|cgi|html?)/U"; sid:{n};)\n'
        f'alert http any any -> any any (msg:"jit"; flow:to_server; pcre:"/User-Agent\\x3a[^\\n]*({w}|MSIE\\s{n}\\.\\d+b)[^\\n]*/H"; sid:{n + 100};)\n'
        for n, (m, w) in enumerate([(m, w) for m in ("GET", "POST", "PUT") for w in ("ab", "login", "x[0-9]", "(a|b)+c")], 1))
    rules = write(work / "jit.rules", body)
    rows, bars = [], []
    for name, setting, published in (("with JIT", "pcre.jit=yes", "53 s"), ("without JIT", "pcre.jit=no", "72 to 80 s")):
        r = cpu([GABION, "read", "-q", "-k", "none", "--set", setting, "-S", str(rules), str(capture)])
        rows.append([name, f"{r['cpu']:.3f}", published])
        bars.append((name, r["cpu"]))
    report.section("PCRE with and without JIT", "24 rules that are an expression and nothing else.",
                   ["", "CPU-s", "published"], rows, ("CPU-s", bars),
                   f"ratio {float(rows[1][1]) / float(rows[0][1]):.2f}, published 1.36 to 1.51")


def bombs(report, work, capture):
    cases = [("(a+)+$", '/^(([a-z])+.)+[A-Z]([a-z])+$/'), ("(.*a){20}", '/(.*e){20}zz/'), ("(x|x?)+y", '/(\\w|\\w?)+#/'),
             ("plain word", '/neverthere/')]
    rows, bars = [], []
    for n, (name, pattern) in enumerate(cases, 1):
        rules = write(work / f"bomb{n}.rules",
                      f'alert tcp any any -> any any (msg:"bomb"; flow:established; pcre:"{pattern}"; sid:{n};)\n')
        c = rule_rows(costs(rules, capture)).get(n, {})
        r = cpu([GABION, "read", "-q", "-k", "none", "-S", str(rules), str(capture)], runs=1)
        rows.append([name, c.get("checks", 0), f"{average(c):,}", f"{r['cpu']:.2f}", r["exit"]])
        bars.append((name, average(c)))
    report.section("Expressions that explode", "Searches end at the match limit (3,500 steps unless configured): dear, never endless.",
                   ["expression", "checks", "ticks a check", "CPU-s", "exit"], rows, ("ticks a check", bars))


def bench(work):
    """The corpus's captures and rules, unpacked; none where the corpus is not."""
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
    rows = []
    for name, published in (("plain", "1.22"), ("flood", "3.45")):
        net = cpu(read("-S", files["rules"], files[name]))["cpu"] - base
        rows.append([name, f"{net:.2f}", published])
    ratio = float(rows[1][1]) / max(float(rows[0][1]), 0.01)
    report.section("Traffic made to hit the pattern matcher",
                   "67,500 packets whose URIs string 40 patterns of the rules together, against random letters.",
                   ["traffic", "CPU-s net", "Suricata 8.0.7"], rows,
                   ("CPU-s", [(r[0], r[1]) for r in rows]), f"flood / plain: {ratio:.2f} (Suricata 2.8 here, 3 to 8 in general)")


def dearest(report, files, capture):
    account = costs(files["rules"], capture)
    found = sorted(rule_rows(account).values(), key=lambda r: -r.get("ticks", 0))
    total = sum(r.get("ticks", 0) for r in found) or 1
    text = files["rules"].read_text(errors="replace")
    names = {int(sid): msg for msg, sid in re.findall(r'msg:"([^"]*)".*?[; ]sid:(\d+);', text)}
    rows = [[r["sid"], names.get(r["sid"], "")[:60], r["checks"], r["matches"], f"{average(r):,}", f"{100 * r['ticks'] / total:.1f} %"]
            for r in found[:15]]
    report.section("The hunt for dear rules", "The Emerging Threats rules on the HTTP capture, dearest first.",
                   ["sid", "message", "checks", "matches", "ticks a check", "share"], rows,
                   ("% of all ticks", [(r[0], float(r[5][:-2])) for r in rows]))


def workers(report, files):
    argv = lambda n, out: [GABION, "read", "--json", "-k", "none", "-S", str(files["rules"]), "-l", out,
                           "--workers", str(n), str(files["mixed"])]
    rows, per_thread, packets, uses = [], [], 1, (0, 0)
    first = None
    for n in (1, 2):
        with tempfile.TemporaryDirectory() as out:
            r = cpu(argv(n, out))
        said = json.loads(r["said"][r["said"].index("{"):])
        first = first or r
        packets = said["packets"]
        if n == 2:
            per_thread = [(t["name"], t["cpu_us"] / 1e6) for t in said["threads"]]
            uses = said["shared_state_uses"], said["shared_state_waits"]
        rows.append([n, f"{r['wall']:.2f}", f"{first['wall'] / r['wall']:.2f}", f"{r['cpu']:.2f}",
                     f"{100 * (r['cpu'] / first['cpu'] - 1):+.0f} %", f"{r['rss']:.0f}", said["alerts"]])
    reader = sum(v for k, v in per_thread if k == "reader")
    writer = sum(v for k, v in per_thread if k == "writer")
    work = sum(v for k, v in per_thread if k.startswith("worker"))
    load = cpu([GABION, "read", "-q", "-S", str(files["rules"]), str(ROOT / "demo/demo.pcap")])["wall"]
    batches = packets / 128
    locks = (2 * (2 * batches / 8) + 4 * batches) / packets
    note = (f"Shared writes a packet: each worker notes its place in a cache line of its own (1 to 2 stores, read by others "
            f"only when they wait); locks a packet: {locks:.3f} (queues, per batch); state across flows was used "
            f"{uses[0]:,} times ({1e6 * uses[0] / packets:.0f} in a million packets), {uses[1]:,} times with a wait. ")
    limit = (work + reader + writer) / max(reader, writer, 1e-9)
    walk = 6e-9 * packets  # what a worker spends on a packet of another
    at24 = max(reader, writer, work / 24 + walk)
    note += (f"Per thread: {', '.join(f'{k} {v:.2f} s' for k, v in per_thread)}; {load:.2f} s of loading are not shared. "
             f"That predicts for 24 processors {(work + reader + writer) / at24:.0f} times one (the writer or the reader "
             f"is full at {limit:.0f} times); published: contention from 4 processors in 1.1, growth up to 24 in 1.3.")
    report.section("One worker and two", "The mixed capture of the corpus, Emerging Threats rules, EVE and fast.log written.",
                   ["workers", "wall s", "times one", "CPU-s", "more CPU", "MiB", "alerts"], rows,
                   ("CPU-s", per_thread), note)


def allocators(report, files, builds):
    if not builds:
        return
    rows, bars = [], []
    for name, feature in (("mimalloc (default)", None), ("jemalloc", "heap-profile"), ("C library", "system-allocator")):
        binary = GABION
        if feature:
            folder = TARGET / f"lab/{feature}"
            subprocess.run(["cargo", "build", "--release", "--locked", "-q", "-p", "gabion", "--features", feature,
                            "--target-dir", str(folder)], check=True, cwd=ROOT)
            binary = str(folder / "release/gabion")
        with tempfile.TemporaryDirectory() as out:
            r = cpu([binary, "read", "-q", "-k", "none", "-S", str(files["rules"]), "-l", out, str(files["mixed"])])
        rows.append([name, f"{r['cpu']:.2f}", f"{r['rss']:.0f}"])
        bars.append((name, r["cpu"]))
    report.section("Allocators", "The mixed capture, one worker.", ["allocator", "CPU-s", "MiB"], rows, ("CPU-s", bars),
                   "Published: tcmalloc a few percent faster than the C library's, jemalloc \"may be worth a shot\". "
                   "Nothing is allocated per packet here once warm, so that little can be won.")


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
    report = Report()
    user_agent(report, work, capture, requests)
    os.chdir(work)  # scripts of rules are looked for beside them
    lua(report, work, capture)
    jit(report, work, capture)
    bombs(report, work, capture)
    files = None if o.quick else bench(work)
    if files:
        dearest(report, files, capture)
        flood(report, files)
        workers(report, files)
        allocators(report, files, not o.without_builds)
    elif not o.quick:
        print(f"\nskipped: no corpus at {CORPUS} (set GABION_CORPUS): rules and captures of many megabytes are there")
    page = OUT / "network.html"
    page.write_text(report.html())
    print(f"\nwith charts: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
