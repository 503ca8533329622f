#!/usr/bin/env python3
# Measures the behaviour engine end to end on logs of flows generated out of the corpus.
"""End-to-end benchmark of `gabion read --behavior`.

Runs the whole program (reading, detectors of all kinds, alerts.json and alerts.log written) on logs of flows
made by flow_logs.py, and prints CPU seconds (user and system), flows per CPU second and peak memory; beside
it DuckDB's answer to two questions about the same file on one thread, when Python has it. Floods are
measured against the ordinary log: as fast, less a fifth, in 256 MiB.

  lab/bench/flows.py [--binary PATH] [--runs N] [--json FILE] [--large]     --large: 10 M flows as well
"""
import argparse, json, os, pathlib, shutil, statistics, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import flow_logs
from bench import TARGET, measure

# Name, kind, flows, the bar in flows per CPU second (None: as fast as the first less a fifth), MiB.
CASES = [
    ("Zeek TSV conn.log", "tsv", 1_000_000, 500_000, 256),
    ("mixed Zeek folder, all logs", "mixed", 600_000, 300_000, 256),
    ("Zeek JSON conn.log", "json", 500_000, 250_000, 256),
    ("16 scans of 65,536 ports", "ports", 1_000_000, None, 256),
    ("scan of 1 M targets", "hosts", 1_000_000, None, 256),
    ("ARP storm", "arp", 1_000_000, None, 256),
    ("10 M spoofed sources", "spoofed", 10_000_000, None, 256),
]
LARGE = [("Zeek TSV conn.log, 10 M", "tsv", 10_000_000, 500_000, 256)]
NAMES = {"tsv": "conn.log", "json": "conn.json.log", "mixed": "mixed", "ports": "conn.ports.log",
         "hosts": "conn.hosts.log", "arp": "arp.log", "spoofed": "conn.spoofed.log"}


def made(work, kind, count):
    """The file or folder, made once; how many records it has."""
    place = work / f"{count}-{NAMES[kind]}"
    told = work / f"{place.name}.count"
    if not told.exists():
        if kind == "mixed":
            shutil.rmtree(place, ignore_errors=True)
            count = flow_logs.mixed(count, place)
        elif kind in ("tsv", "json"):
            flow_logs.plain(count, place, kind == "json")
        else:
            flow_logs.flood(kind, count, place)
        told.write_text(str(count))
    return place, int(told.read_text())


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


def duckdb_beside(place, rate_of):
    try:
        import duckdb
    except ImportError:
        print("DuckDB: skipped: this python3 has no module duckdb (pip install duckdb)")
        return None
    db = duckdb.connect()
    db.execute("SET threads = 1")
    source = (f"read_csv('{place}', delim='\t', header=false, skip=6, all_varchar=true, quote='', escape='', "
              f"comment='', auto_detect=false, columns={{{', '.join(f'{chr(39)}{n}{chr(39)}: {chr(39)}VARCHAR{chr(39)}' for n in flow_logs.FIELDS)}}})")
    questions = {
        "count, sum, distinct sources": f"SELECT count(*), sum(TRY_CAST(orig_bytes AS BIGINT)), count(DISTINCT \"id.orig_h\") FROM {source}",
        "sources with > 5 hosts on a port": f"SELECT \"id.orig_h\", \"id.resp_p\", count(DISTINCT \"id.resp_h\") AS n FROM {source} GROUP BY 1, 2 HAVING n > 5",
    }
    figures = {}
    for name, sql in questions.items():
        before = time.process_time()
        rows = len(db.execute(sql).fetchall())
        cpu = time.process_time() - before
        figures[name] = cpu
        print(f"{'DuckDB, 1 thread: ' + name:50} {cpu:6.2f} CPU-s {rate_of / cpu / 1000:8.0f} k flows/CPU-s   {rows} rows", flush=True)
    return figures


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
        wanted = bar or 0.8 * base
        is_met = rate >= wanted and r["rss_mib"] <= most and r["exit"] == 0
        if not is_met:
            below.append(name)
        print(f"{name:32} {records:10} {r['cpu_median']:7.2f} {rate / 1000:8.0f} {r['wall_median']:7.2f} {r['rss_mib']:8.0f} "
              f"{r['evidence']:9}  {wanted / 1000:.0f} k, {most} MiB: {'met' if is_met else 'BELOW'}", flush=True)
        if kind == "spoofed" and not o.smoke:
            place.unlink()
            (work / f"{place.name}.count").unlink()
    if not o.only and not o.smoke:
        place, records = made(work, "tsv", 1_000_000)
        figures["duckdb"] = duckdb_beside(place, records)
        one = figures["one worker"] = run(o.binary, place, o.runs, ("--workers", "1"))
        two = figures["two workers"] = run(o.binary, place, o.runs, ("--workers", "2"))
        times = one["wall_best"] / two["wall_best"]
        print(f"two workers against one: wall {times:.2f} times as fast (bar 1.7), "
              f"CPU {100 * (two['cpu'] / one['cpu'] - 1):+.1f} %, evidence {'equal' if one['evidence'] == two['evidence'] else 'DIFFERS'}")
    two = work / "two.conn.log"
    with open(two, "w") as file:
        file.write(flow_logs.HEADER)
        for n in (1, 2):
            file.write(f"{flow_logs.START + n}.0\tC{n}\t10.0.0.{n}" + flow_logs.REST % ("192.0.2.1", 443))
    r = figures["two flows"] = run(o.binary, two, max(o.runs, 5))
    is_met = r["wall_median"] <= 0.05 and r["rss_mib"] <= 30
    print(f"{'file of two flows':32} {2:10} {r['cpu_median']:7.3f} {'':8} {r['wall_median']:7.3f} {r['rss_mib']:8.0f} "
          f"{r['evidence']:9}  0.050 s, 30 MiB: {'met' if is_met else 'BELOW'}")
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(figures, indent=1))
    if below:
        print(f"below their bars here: {', '.join(below)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
