#!/usr/bin/env python3
# Measures the behaviour engine end to end on flow logs generated from the corpus.
"""End-to-end benchmark of `gabion read --behavior`.

Runs the whole program (reading, detectors of all kinds, alerts.json and alerts.log written) on flow logs
made by flow_logs.py, and prints CPU seconds (user and system), flows per CPU second and peak memory; for
comparison also DuckDB's figures for two queries over the same file on one thread (installed into target/ if there
is a network). Floods must reach four fifths of the ordinary log's speed, in 256 MiB. The last figure is the
time from a flow to its evidence in a live run, at 50,000 flows a second.

  lab/bench/flows.py [--binary PATH] [--runs N] [--json FILE] [--large]     --large: 10 M flows as well
"""
import argparse, json, os, pathlib, shutil, signal, statistics, subprocess, sys, tempfile, threading, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import flow_logs
from bench import TARGET, measure

# Name, kind, flows, the bar in flows per CPU second (up to 1: a share of the first case's), MiB.
CASES = [
    ("Zeek TSV conn.log", "tsv", 1_000_000, 500_000, 256),
    ("mixed Zeek folder, all logs", "mixed", 600_000, 300_000, 256),
    ("Zeek JSON conn.log", "json", 500_000, 250_000, 256),
    ("16 scans of 65,536 ports", "ports", 1_000_000, 0.8, 256),
    ("scan of 1 M targets", "hosts", 1_000_000, 0.8, 256),
    ("ARP storm", "arp", 1_000_000, 0.8, 256),
    ("10 M spoofed sources", "spoofed", 10_000_000, 0.8, 256),
    ("10 M established, new sources", "established", 10_000_000, 0.5, 256),
    ("12 M loud, new sources", "loud", 12_000_000, 0.0, 256),
]
LARGE = [("Zeek TSV conn.log, 10 M", "tsv", 10_000_000, 500_000, 256)]
NAMES = {"tsv": "conn.log", "json": "conn.json.log", "mixed": "mixed", "ports": "conn.ports.log",
         "hosts": "conn.hosts.log", "arp": "arp.log", "spoofed": "conn.spoofed.log",
         "established": "conn.established.log", "loud": "conn.loud.log"}
# The evidence required of each host that is planted in the flood of loud sources.
PLANTED = {"192.168.1.50": "BEACON", "192.168.1.66": "SLOW_VERTICAL_PORT_SCAN", "192.168.1.77": "MULTIPLE_RECONNECTION_ATTEMPTS",
           "192.168.1.88": "DATA_UPLOAD"}


def made(work, kind, count):
    """The file or folder, made once, and its number of records."""
    place = work / f"{count}-{NAMES[kind]}"
    counted = work / f"{place.name}.count"
    if not counted.exists():
        if kind == "mixed":
            shutil.rmtree(place, ignore_errors=True)
            count = flow_logs.mixed(count, place)
        elif kind in ("tsv", "json"):
            flow_logs.plain(count, place, kind == "json")
        else:
            flow_logs.flood(kind, count, place)
        counted.write_text(str(count))
    return place, int(counted.read_text())


def run(binary, place, runs, extra=()):
    results = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as out:
            r = measure([binary, "read", str(place), "--behavior", "-q", "-l", out, *extra])
            found = pathlib.Path(out) / "alerts.json"
            r["evidence"] = sum(1 for _ in open(found)) if found.exists() else 0
            results.append(r)
    best = min(results, key=lambda r: r["cpu"])
    best["cpu_median"] = statistics.median(r["cpu"] for r in results)
    best["wall_best"] = min(r["wall"] for r in results)
    best["wall_median"] = statistics.median(r["wall"] for r in results)
    best["rss_mib"] = max(r["rss_mib"] for r in results)
    return best


def side_by_side(binary, place):
    """Seconds until two runs of one worker each, started together, are both done."""
    with tempfile.TemporaryDirectory() as out:
        begun = time.monotonic()
        runs = [subprocess.Popen([binary, "read", str(place), "--behavior", "-q", "--workers", "1", "-l", f"{out}/{n}"],
                                 stdout=subprocess.DEVNULL) for n in range(2)]
        codes = [r.wait() for r in runs]
        return time.monotonic() - begun if not any(codes) else float("inf")


def parallel(binary, place, rounds):
    """One worker, two, and two runs at the same time, alternating, so that each has the machine's good minutes and its bad ones."""
    figures = {"one": [], "two": [], "together": [], "cpu one": [], "cpu two": [], "evidence": set()}
    for _ in range(rounds):
        for name, workers in (("one", "1"), ("two", "2")):
            r = run(binary, place, 1, ("--workers", workers))
            figures[name].append(r["wall"])
            figures[f"cpu {name}"].append(r["cpu"])
            figures["evidence"].add((r["evidence"], r["exit"]))
        figures["together"].append(side_by_side(binary, place))
    one, two, together = (figures[n] for n in ("one", "two", "together"))
    best, middle = min, statistics.median
    print(f"two workers against one, {rounds} alternating rounds: wall {best(one) / best(two):.2f} times as fast at best, {middle(one) / middle(two):.2f} at the "
          f"median (bar 1.7); two runs at the same time, this machine's maximum: {2 * best(one) / best(together):.2f} and {2 * middle(one) / middle(together):.2f}; "
          f"CPU {100 * (best(figures['cpu two']) / best(figures['cpu one']) - 1):+.1f} %, evidence {'equal' if len(figures['evidence']) == 1 else 'DIFFERS'}",
          flush=True)
    figures["evidence"] = sorted(figures["evidence"])
    return figures


def duckdb_python(work):
    """A python3 that has DuckDB: this one, or one in target/, made if there is a network."""
    def has(python):
        return subprocess.run([python, "-c", "import duckdb"], stderr=subprocess.DEVNULL).returncode == 0
    own = work / "venv/bin/python3"
    for python in (sys.executable, str(own)):
        if pathlib.Path(python).exists() and has(python):
            return python
    try:
        subprocess.run([sys.executable, "-m", "venv", own.parent.parent], check=True, capture_output=True, timeout=120)
        subprocess.run([own, "-m", "pip", "install", "-q", "--disable-pip-version-check", "duckdb"], check=True, capture_output=True, timeout=300)
    except (OSError, subprocess.SubprocessError):
        return None
    return str(own) if has(own) else None


def compare_duckdb(work, place, rate_of):
    python = duckdb_python(work)
    if python is None:
        print("DuckDB: skipped: no python3 with the module duckdb, and it can't be installed here (pip install duckdb)")
        return None
    source = (f"read_csv('{place}', delim='\t', header=false, skip=6, all_varchar=true, quote='', escape='', "
              f"comment='', auto_detect=false, columns={{{', '.join(f'{chr(39)}{n}{chr(39)}: {chr(39)}VARCHAR{chr(39)}' for n in flow_logs.FIELDS)}}})")
    questions = {
        "count, sum, distinct sources": f"SELECT count(*), sum(TRY_CAST(orig_bytes AS BIGINT)), count(DISTINCT \"id.orig_h\") FROM {source}",
        "sources with > 5 hosts on a port": f"SELECT \"id.orig_h\", \"id.resp_p\", count(DISTINCT \"id.resp_h\") AS n FROM {source} GROUP BY 1, 2 HAVING n > 5",
    }
    ask = ("import duckdb, sys, time\ndb = duckdb.connect()\ndb.execute('SET threads = 1')\nbefore = time.process_time()\n"
           "rows = len(db.execute(sys.argv[1]).fetchall())\nprint(time.process_time() - before, rows, duckdb.__version__)")
    figures = {}
    for name, sql in questions.items():
        cpu, rows, version = subprocess.run([python, "-c", ask, sql], check=True, capture_output=True, text=True).stdout.split()[-3:]
        figures[name] = cpu = float(cpu)
        print(f"{f'DuckDB {version}, 1 thread: {name}':58} {cpu:6.2f} CPU-s {rate_of / cpu / 1000:8.0f} k flows/CPU-s   {rows} rows", flush=True)
    return figures


def latency(binary, per_second, seconds, workers):
    """Live: seconds from the moment when a flow is in the log until its evidence is in alerts.log, sorted.

    A log grows by a slice each 10 ms. In each slice another scanner reaches its tenth host with its last
    flow, so the evidence belongs to that moment; a thread reads evidence as it is written."""
    slices, each = seconds * 100, per_second // 100
    texts, names = [], []
    for n in range(slices):
        at = flow_logs.START + n / 100
        scanner = f"203.0.{113 + n // 250}.{n % 250}"
        lines = [f"{at + k / each / 100:.6f}\tC{n}x{k}\t{flow_logs.address(n * each + k)}" + flow_logs.REST % ("192.0.2.80", 80) for k in range(each - 10)]
        lines += [f"{at + 0.0099:.6f}\tS{n}x{k}\t{scanner}" + flow_logs.REST % (f"198.51.100.{k}", 23) for k in range(10)]
        texts.append("".join(lines))
        names.append(f"From {scanner} to 10 unique")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        log, out = folder / "conn.log", folder / "out"
        log.write_text(flow_logs.HEADER)
        child = subprocess.Popen([binary, "read", str(log), "--behavior", "--follow", "--workers", str(workers), "-q", "-l", str(out)],
                                 stdout=subprocess.DEVNULL)
        seen, stop = {}, threading.Event()

        def look():
            while not (out / "alerts.log").exists() and not stop.is_set():
                time.sleep(0.005)
            with open(out / "alerts.log") as found:
                rest = ""
                while not stop.is_set():
                    text = found.read()
                    now = time.monotonic()
                    *whole, rest = (rest + text).split("\n")
                    for line in whole:
                        at = line.find("From 203.0.")
                        if at >= 0 and " to 10 unique" in line:
                            seen.setdefault(line[at:line.index(" unique", at) + 7], now)
                    time.sleep(0.002)

        watcher = threading.Thread(target=look)
        watcher.start()
        while not (out / "alerts.log").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        written, begun = {}, time.monotonic()
        with open(log, "a") as file:
            for n, (text, name) in enumerate(zip(texts, names)):
                time.sleep(max(0.0, begun + n / 100 - time.monotonic()))
                file.write(text)
                file.flush()
                written[name] = time.monotonic()
        took = time.monotonic() - begun
        until = time.monotonic() + 10
        while len(seen) < slices and time.monotonic() < until:
            time.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        code = child.wait(timeout=30)
        stop.set()
        watcher.join()
    late = sorted(max(0.0, seen[name] - at) for name, at in written.items() if name in seen)
    return {"late": late, "missing": slices - len(late), "exit": code, "rate": per_second * seconds / took}


def planted(binary, place):
    """Evidence of planted hosts that a run does not report."""
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([binary, "read", str(place), "--behavior", "-q", "-l", out], stdout=subprocess.DEVNULL)
        found = set()
        with open(pathlib.Path(out) / "alerts.json") as file:
            for line in file:
                if '"192.168.1.' in line:
                    finding = json.loads(line)
                    found |= {(s.get("IP"), finding.get("_gabion", {}).get("type")) for s in finding.get("Source", [])}
    return [f"{kind} of {ip}" for ip, kind in PLANTED.items() if (ip, kind) not in found]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=str(TARGET / "release/gabion"))
    a.add_argument("--runs", type=int, default=3)
    a.add_argument("--json", help="write all figures to this file")
    a.add_argument("--large", action="store_true", help="10 M flows as well")
    a.add_argument("--only", help="only cases whose name contains this")
    a.add_argument("--smoke", action="store_true", help="small inputs, no bars")
    o = a.parse_args()
    if not (flow_logs.FLOWS).is_dir():
        print(f"bench: flows: skipped: no corpus at {flow_logs.CORPUS} (set GABION_CORPUS)")
        return 0
    work = TARGET / "bench/flows"
    work.mkdir(parents=True, exist_ok=True)
    figures, below, base = {}, [], None
    print(f"{'case':32} {'flows':>10} {'CPU-s':>7} {'k/CPU-s':>8} {'wall':>7} {'RSS MiB':>8} {'evidence':>9}  bar")
    for name, kind, count, bar, most in CASES + (LARGE if o.large else []):
        if o.only and o.only not in name:
            continue
        if o.smoke:
            count //= 100
        place, records = made(work, kind, count)
        r = figures[name] = run(o.binary, place, o.runs)
        rate = r["rate"] = records / r["cpu_median"]
        base = base or rate
        wanted = bar if bar > 1 else bar * base
        is_met = rate >= wanted and r["rss_mib"] <= most and r["exit"] == 0
        if not is_met:
            below.append(name)
        print(f"{name:32} {records:10} {r['cpu_median']:7.2f} {rate / 1000:8.0f} {r['wall_median']:7.2f} {r['rss_mib']:8.0f} "
              f"{r['evidence']:9}  {wanted / 1000:.0f} k, {most} MiB: {'met' if is_met else 'BELOW'}", flush=True)
        if kind == "established":
            for workers in (2, 3, 4):
                more = figures[f"{name}, {workers} workers"] = run(o.binary, place, 1, ("--workers", str(workers)))
                is_met = more["rss_mib"] <= most and more["exit"] == 0
                print(f"{f'  with {workers} workers':32} {'':10} {more['cpu']:7.2f} {'':8} {more['wall_median']:7.2f} {more['rss_mib']:8.0f} "
                      f"{more['evidence']:9}  {most} MiB: {'met' if is_met else 'BELOW'}", flush=True)
                if not is_met:
                    below.append(f"{name}, {workers} workers")
        if kind == "loud":
            missing = figures["planted"] = planted(o.binary, place)
            print(f"{'  planted in it':32} not found: {', '.join(missing) or 'none'}", flush=True)
            if missing and not o.smoke:
                below.append("hosts planted in a flood")
        if kind in ("spoofed", "established", "loud") and not o.smoke:
            place.unlink()
            (work / f"{place.name}.count").unlink()
    if not o.only and not o.smoke:
        place, records = made(work, "tsv", 1_000_000)
        figures["duckdb"] = compare_duckdb(work, place, records)
        figures["workers"] = parallel(o.binary, place, max(4 * o.runs, 4))
    two = work / "two.conn.log"
    with open(two, "w") as file:
        file.write(flow_logs.HEADER)
        for n in (1, 2):
            file.write(f"{flow_logs.START + n}.0\tC{n}\t10.0.0.{n}" + flow_logs.REST % ("192.0.2.1", 443))
    r = figures["two flows"] = run(o.binary, two, max(o.runs, 5))
    is_met = r["wall_median"] <= 0.05 and r["rss_mib"] <= 30
    if not is_met:
        below.append("file of two flows")
    print(f"{'file of two flows':32} {2:10} {r['cpu_median']:7.3f} {'':8} {r['wall_median']:7.3f} {r['rss_mib']:8.0f} "
          f"{r['evidence']:9}  0.050 s, 30 MiB: {'met' if is_met else 'BELOW'}")
    if not o.only:
        for workers in (1, 2):
            r = latency(o.binary, 5_000 if o.smoke else 50_000, 1 if o.smoke else 10, workers)
            late = r["late"] or [float("inf")]
            p50, p99, most = (late[min(len(late) - 1, int(len(late) * share))] for share in (0.5, 0.99, 1))
            figures[f"latency, {workers} workers"] = {"p50": p50, "p99": p99, "max": most, "missing": r["missing"], "rate": r["rate"]}
            is_met = p99 <= 1.0 and r["missing"] == 0 and r["exit"] == 0
            if not is_met:
                below.append(f"latency with {workers} workers")
            print(f"{f'live, {workers} worker' + 's' * (workers > 1):32} {r['rate'] / 1000:.0f} k flows/s, {len(r['late'])} findings: flow written to evidence "
                  f"written p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, most {most * 1000:.0f} ms  p99 1 s: {'met' if is_met else 'BELOW'}", flush=True)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(figures, indent=1))
    if below:
        print(f"below their bars here: {', '.join(below)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
