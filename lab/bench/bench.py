#!/usr/bin/env python3
# Measures the network engine end to end, as whole processes, and Suricata if it is named.
"""End-to-end benchmark of the network engine.

Runs the sensor as a whole process on the benchmark captures of the corpus and prints CPU seconds (user
and system, as the kernel counts them for each finished process), packets per CPU second net of start-up,
and peak memory; in the same run also the lower bound (gabion-limit: read, decode and flow lookup alone) and, if
it is named, Suricata, so that the results are ratios. Needs python3 and zstd.

  lab/bench/bench.py [--binary PATH] [--suricata PATH] [--runs N] [--json FILE] [--smoke]
"""
import argparse, json, os, pathlib, shutil, statistics, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus"))
PACKETS = {"mixed": 1166893, "mpm-flood": 67500, "mpm-plain": 67500}


def unpack(source, target):
    if not target.exists():
        subprocess.run(["zstd", "-dqf", source, "-o", target], check=True)
    return target


# A small process starts the measured one: a child's peak includes the memory that its parent held at the fork.
LAUNCHER = """
import json, os, sys, time
start = time.monotonic()
pid = os.fork()
if pid == 0:
    os.dup2(2, 1)
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as e:
        print(f"{sys.argv[1]}: {e}", file=sys.stderr)
    os._exit(127)
_, status, usage = os.wait4(pid, 0)
print(json.dumps({"cpu": usage.ru_utime + usage.ru_stime, "wall": time.monotonic() - start,
                  "rss_mib": usage.ru_maxrss / 1024, "exit": os.waitstatus_to_exitcode(status)}))
"""


def measure(argv):
    """CPU seconds, wall seconds and peak MiB of one process, its exit code and its last line."""
    with tempfile.TemporaryFile() as output:
        launched = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, argv)], stdout=subprocess.PIPE, stderr=output, check=True)
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    return {**json.loads(launched.stdout), "last": lines[-1] if lines else ""}


def repeat(make_argv, runs):
    results = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as out:
            r = measure(make_argv(out))
            eve = pathlib.Path(out) / "eve.json"
            r["eve_bytes"] = eve.stat().st_size if eve.exists() else 0
            fast = pathlib.Path(out) / "fast.log"
            r["alerts"] = sum(1 for _ in open(fast, errors="replace")) if fast.exists() else 0
            results.append(r)
    best = min(results, key=lambda r: r["cpu"])
    best["cpu_all"] = [round(r["cpu"], 3) for r in results]
    best["cpu_median"] = statistics.median(r["cpu"] for r in results)
    best["wall_best"] = min(r["wall"] for r in results)
    best["wall_median"] = statistics.median(r["wall"] for r in results)
    return best


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=str(TARGET / "release/gabion"))
    a.add_argument("--limit", default=str(TARGET / "release/gabion-limit"), help="the lower bound: reads, decodes, looks up flows")
    a.add_argument("--suricata", "--peer", help="a Suricata to compare with")
    a.add_argument("--runs", type=int, default=3)
    a.add_argument("--json", help="write all figures to this file")
    a.add_argument("--smoke", action="store_true", help="one run on the demonstration capture")
    o = a.parse_args()
    if o.smoke:
        r = repeat(lambda out: [o.binary, "read", str(ROOT / "demo/demo.pcap"),
                                "--rules", str(ROOT / "demo/gabion.rules"), "-q",
                                "-l", out, "-k", "none"], 1)
        print(f"demo: {r['cpu']:.3f} CPU-s, {r['rss_mib']:.0f} MiB, exit {r['exit']}")
        return 0 if r["exit"] == 0 else 1
    if not (CORPUS / "bench").is_dir():
        print(f"bench: skipped: no corpus at {CORPUS} (set GABION_CORPUS)")
        return 0
    work = TARGET / "bench"
    work.mkdir(parents=True, exist_ok=True)
    caps = {n: unpack(CORPUS / f"bench/{n}.pcap.zst", work / f"{n}.pcap") for n in PACKETS}
    rules = unpack(CORPUS / "rules/emerging-all.rules.zst", work / "et.rules")
    empty = work / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    # Suricata takes a minute for a capture without packets: one ARP frame keeps it short.
    one = work / "one.pcap"
    frame = bytes.fromhex("ffffffffffff0000000000010806") + bytes(46)
    one.write_bytes(empty.read_bytes() + (1).to_bytes(4, "little") + bytes(4)
                    + len(frame).to_bytes(4, "little") * 2 + frame)
    yaml = CORPUS / "suricata-verify/suricata.yaml"
    sets = ["--set", f"classification-file={CORPUS}/rules/classification.config",
            "--set", f"reference-config-file={CORPUS}/rules/reference.config"]
    quiet = ["--set", "outputs.1.eve-log.enabled=no", "--set", "outputs.0.fast.enabled=no",
             "--set", "stats.enabled=no"]

    def command(program, extra):
        def make(out):
            return program + ["-c", str(yaml), *sets, "-l", out, "-k", "none", "--runmode", "single", *extra]
        return make

    et, none = ["-S", str(rules)], ["--disable-detection"]
    cases = [
        ("load ET rules", [*et, "-r", str(one)], None),
        ("start, no rules", [*none, "-r", str(one)], None),
        ("ET rules + EVE", [*et, "-r", str(caps["mixed"])], "load ET rules"),
        ("no rules, EVE", [*none, "-r", str(caps["mixed"])], "start, no rules"),
        ("no rules, no outputs", [*none, *quiet, "-r", str(caps["mixed"])], "start, no rules"),
        ("load, no outputs", [*et, *quiet, "-r", str(one)], None),
        ("mpm-flood, no outputs", [*et, *quiet, "-r", str(caps["mpm-flood"])], "load, no outputs"),
        ("mpm-plain, no outputs", [*et, *quiet, "-r", str(caps["mpm-plain"])], "load, no outputs"),
    ]
    programs = [("gabion", [o.binary, "suricata"])]
    if o.suricata:
        programs.append(("suricata", [o.suricata]))
    figures = {}
    print(f"{'case':25} {'program':8} {'CPU-s':>8} {'net':>8} {'k pkt/CPU-s':>12} {'wall':>7} {'RSS MiB':>8} {'alerts':>7}")
    for name, extra, base in cases:
        for who, program in programs:
            r = repeat(command(program, extra), o.runs)
            r["net"] = r["cpu_median"] - (figures[(who, base)]["cpu_median"] if base else 0)
            figures[(who, name)] = r
            packets = next((PACKETS[c] for c in PACKETS if any(f"/{c}.pcap" in e for e in extra)), None)
            rate = f"{packets / r['net'] / 1000:.0f}" if packets and r["net"] > 0 else ""
            print(f"{name:25} {who:8} {r['cpu_median']:8.2f} {r['net']:8.2f} {rate:>12} "
                  f"{r['wall_median']:7.2f} {r['rss_mib']:8.0f} {r['alerts']:7}", flush=True)
    # The lower bound of these parts: no reassembly, no parser, no rule, no record.
    limit = figures[("limit", "read, decode, flow lookup")] = repeat(lambda _: [o.limit, str(caps["mixed"])], o.runs)
    limit["net"] = limit["cpu_median"]
    print(f"{'read, decode, flow lookup':25} {'limit':8} {limit['cpu_median']:8.2f} {limit['net']:8.2f} "
          f"{PACKETS['mixed'] / limit['net'] / 1000:12.0f} {limit['wall_median']:7.2f} {limit['rss_mib']:8.0f}   {limit['last']}",
          flush=True)
    # One worker is one thread that also reads; two share its work. Loading is not shared.
    def workers(n, capture):
        return lambda out: [o.binary, "read", "-q", "-k", "none", "-S", str(rules), "-l", out,
                            "--workers", str(n), str(capture)]
    start = repeat(workers(1, one), o.runs)
    for n in (1, 2):
        r = figures[("gabion", f"{n} workers")] = repeat(workers(n, caps["mixed"]), o.runs)
        r["net"] = r["cpu_median"] - start["cpu_median"]
        print(f"{f'ET rules + EVE, {n} workers':25} {'gabion':8} {r['cpu_median']:8.2f} {r['net']:8.2f} {'':>12} "
              f"{r['wall_median']:7.2f} {r['rss_mib']:8.0f} {r['alerts']:7}", flush=True)
    a, b = (figures[("gabion", f"{n} workers")] for n in (1, 2))
    print(f"two workers against one: wall {a['wall_best'] / b['wall_best']:.2f} times as fast "
          f"(net of loading {(a['wall_best'] - start['wall_best']) / (b['wall_best'] - start['wall_best']):.2f}), "
          f"CPU {100 * (min(b['cpu_all']) / min(a['cpu_all']) - 1):+.1f} %, "
          f"alerts {'equal' if a['alerts'] == b['alerts'] else 'DIFFER'}")
    e = repeat(lambda out: [o.binary, "suricata", "-c", str(yaml), *none, "-r", str(empty), "-l", out], o.runs)
    figures[("gabion", "empty capture")] = e
    print(f"{'empty capture':25} {'gabion':8} {e['cpu_median']:8.3f} {'':8} {'':12} {e['wall_median']:7.3f} {e['rss_mib']:8.0f}   exit {e['exit']}")
    if o.suricata:
        for name in ("ET rules + EVE", "no rules, EVE", "mpm-flood, no outputs"):
            print(f"ratio suricata/gabion, {name}: {figures[('suricata', name)]['net'] / figures[('gabion', name)]['net']:.2f}")
    for name in ("ET rules + EVE", "no rules, EVE", "no rules, no outputs"):
        print(f"times the lower bound, {name}: {figures[('gabion', name)]['net'] / limit['net']:.1f}")
    if a["alerts"] != b["alerts"] or a["eve_bytes"] == 0:
        print("bench: one worker and two must find the same", file=sys.stderr)
        return 1
    flood, plain = (figures[("gabion", f"mpm-{k}, no outputs")]["net"] for k in ("flood", "plain"))
    print(f"flood/plain, gabion: {flood / plain:.2f}")
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps({f"{w}: {n}": r for (w, n), r in figures.items()}, indent=1))
    return 0


if __name__ == "__main__":
    if shutil.which("zstd") is None:
        sys.exit("bench: zstd is missing: apt-get install zstd")
    sys.exit(main())
