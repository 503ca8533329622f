#!/usr/bin/env python3
# System calls from files: reading, state and filters compared with sysdig, Falco's rules, memory, and a million processes.
"""Benchmark of system call captures.

The file is one capture's events 40 times over. Runs are whole processes in turn, CPU seconds net of the start (the same
command on what is before the first event), medians. sysdig (0.29.3, 2022) is measured in the same run where it is
installed; Falco's figures are published ones or of other runs, and scale with sysdig's in this run.

  lab/bench/scap.py [--binary PATH] [--runs N] [--json FILE] [--smoke]
"""
import argparse, json, os, pathlib, shutil, statistics, subprocess, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import scap_files
from bench import CORPUS, TARGET, measure
from kernel import MemoryGroup, Quiet

CAPTURE, TIMES_OVER = "sysflow-mpm-event-full_capture", 40
# Falco's files need sysdig's speed of another run; its raw events a CPU second there.
SYSDIG_THERE = 4.6e6
MEMORY_MOST = 256 << 20
FOREIGN_MOST = 10.0
RULE_FILES = ("falco_rules.yaml", "falco-incubating_rules.yaml", "falco-sandbox_rules.yaml")
QUIET = ["-o", "stdout_output.enabled=true", "-o", "syslog_output.enabled=false", "-o", "watch_config_files=false", "-o", "webserver.enabled=false"]


def falco(binary, capture, rules, *more):
    return [binary, "falco", "-c", "/dev/null", *QUIET, "-o", "engine.kind=replay", "-o", f"engine.replay.capture_file={capture}",
            *(part for rule in rules for part in ("-r", rule)), *more]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=os.environ.get("GABION", str(TARGET / "release/gabion")))
    a.add_argument("--limit", default=str(TARGET / "release/gabion-limit"), help="the lower bound: reads and decodes")
    a.add_argument("--runs", type=int, default=7)
    a.add_argument("--json", help="write all figures to this file")
    a.add_argument("--smoke", action="store_true", help="one run of each on the capture itself, a thousandth of the processes; no bar is judged")
    a.add_argument("--only", choices=("speed", "million"), help="only one of the two parts")
    o = a.parse_args()
    source, folder = CORPUS / f"scap/captures/{CAPTURE}.scap", CORPUS / "falco-rules"
    if not source.exists():
        print(f"bench: system calls: skipped: no corpus at {CORPUS} (set GABION_CORPUS)")
        return 0
    work = TARGET / "bench"
    work.mkdir(parents=True, exist_ok=True)
    times_over, runs = (1, 1) if o.smoke else (TIMES_OVER, o.runs)
    capture, start = work / f"syscalls-{times_over}.scap", work / "syscalls-0.scap"
    events = scap_files.repeated(source, capture, times_over)
    scap_files.beginning(source, start)
    files = [folder / name for name in RULE_FILES]
    everything = ["-o", "rules[].enable.rule=*", "-o", "rule_matching=all"]
    if o.only == "million":
        return ended(million(o, work, files))
    condition = "proc.name=nobody-has-this-name"
    # name: (command on a file, whether it is compared net of its start)
    cases = {
        "one filter": lambda file: [o.binary, "events", file, condition],
        "stable rules": lambda file: falco(o.binary, file, files[:1]),
        "all 93 rules, all matches": lambda file: falco(o.binary, file, files, *everything),
    }
    if pathlib.Path(o.limit).exists():
        cases["limit: read, decode"] = lambda file: [o.limit, "--scap", file]
    else:
        print(f"limit: skipped: {o.limit} is not there (cargo build --release -p gabion-limit)")
    if shutil.which("sysdig"):
        cases["sysdig, one filter"] = lambda file: ["sysdig", "-r", file, condition]
    found = {name: {"net": [], "rss": [], "start": []} for name in cases}
    failed, loads, quiet = [], [], Quiet(FOREIGN_MOST)
    load = [o.binary, "falco", *(part for file in files for part in ("-V", str(file)))]
    for _ in range(runs):
        loads.append(measure(load)["cpu"] - measure([o.binary, "--version"])["cpu"])
        for name, command in cases.items():
            empty, full = measure(command(start)), measure(command(capture))
            if full["exit"] != 0:
                failed.append(f"{name}: exit {full['exit']}: {full['last']}")
            found[name]["start"].append(empty["cpu"])
            found[name]["net"].append(max(full["cpu"] - empty["cpu"], 1e-4))
            found[name]["rss"].append(full["rss_mib"])
    print(f"{'system calls':28} {'CPU-s net':>10} {'M raw/CPU-s':>12} {'RSS MiB':>8} {'start ms':>9}   {events} raw events, medians of {runs}")
    figures = {}
    for name, all_of in found.items():
        net, rss, begin = (statistics.median(all_of[key]) for key in ("net", "rss", "start"))
        figures[name] = {"net": net, "rate": events / net, "rss_mib": max(all_of["rss"]), "start_ms": begin * 1000, "all": all_of}
        print(f"{name:28} {net:10.3f} {events / net / 1e6:12.2f} {rss:8.1f} {begin * 1000:9.1f}", flush=True)
    figures["load of the three files"] = {"ms": statistics.median(loads) * 1000}
    disturbed = quiet.disturbed()
    missed = ratios(figures, "no bar is judged" if o.smoke else disturbed) + failed
    if o.only is None:
        missed += million(o, work, files)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(figures, indent=1))
    capture.unlink()
    return ended(missed)


def ended(missed):
    for line in missed:
        print(f"bench: {line}", file=sys.stderr)
    return 1 if missed else 0


def ratios(figures, why_not):
    """Each figure with its bar: absolute ones scale with what sysdig does in this run. Returns the bars that are missed;
    none is judged where `why_not` says why."""
    missed = []

    def bar(what, value, must, aim, text, is_least):
        good = (lambda limit: value >= limit) if is_least else (lambda limit: value <= limit)
        verdict = f"not judged: {why_not}" if why_not else "aimed" if good(aim) else "met" if good(must) else "missed"
        print(f"{what}: {text} (must {must:g}, aim {aim:g}): {verdict}")
        if verdict == "missed":
            missed.append(f"{what}: {text}, must {must:g}")

    sysdig = figures.get("sysdig, one filter")
    if sysdig:
        ratio = figures["one filter"]["rate"] / sysdig["rate"]
        bar("one filter", ratio, 1.0, 2.0, f"{ratio:.2f} times sysdig", True)
    else:
        print("sysdig: skipped: not installed (apt-get install sysdig)")
    scale = sysdig["rate"] / SYSDIG_THERE if sysdig else 1
    for name, must, aim, theirs in (("stable rules", 3e6, 5e6, 2.2e6), ("all 93 rules, all matches", 1e6, 2e6, 0.25e6)):
        rate = figures[name]["rate"] / scale
        text = f"{rate / 1e6:.2f} M events/CPU-s{' at the speed of sysdig there' if sysdig else ''}, Falco {theirs / 1e6:.2f}"
        bar(name, rate / 1e6, must / 1e6, aim / 1e6, text, True)
    rss = figures["all 93 rules, all matches"]["rss_mib"]
    theirs = f", sysdig without rules {sysdig['rss_mib']:.0f}" if sysdig else ""
    bar("peak memory with all rules", rss, 64, 40, f"{rss:.0f} MiB{theirs}", False)
    load = figures["load of the three files"]["ms"]
    bar("load of the three files", load, 40, 15, f"{load:.1f} ms, Falco -O1 79", False)
    limit = figures.get("limit: read, decode")
    if limit:
        print(f"times the lower bound, one filter: {figures['one filter']['net'] / limit['net']:.1f}")
    return missed


def million(o, work, files):
    """A capture of a million processes in a cgroup of 256 MiB: it ends well, and the shell at its end is found."""
    count = 1_000 if o.smoke else 1_000_000
    path = work / "million.scap"
    events = scap_files.million(path, count)
    cgroup = MemoryGroup.make(MEMORY_MOST)
    argv = [str(part) for part in falco(o.binary, path, files)]
    try:
        if cgroup is None:
            print("a million processes: cgroup: skipped: can't create a memory cgroup (needs root)")
            done, peak, kills = subprocess.run(argv, capture_output=True, text=True), 0, 0
        else:
            done, peak, kills = cgroup.run(argv)
    finally:
        if cgroup:
            cgroup.remove()
        path.unlink()
    alerts = [line for line in done.stdout.splitlines() if "Shell spawned by untrusted binary" in line and "httpd" in line]
    print(f"{count} processes, {events} events, {MEMORY_MOST >> 20} MiB: exit {done.returncode}, kills {kills}, peak {peak >> 20} MiB, "
          f"the planted shell is {'found' if alerts else 'NOT FOUND'}")
    if cgroup is None:
        return []
    if done.returncode == 0 and kills == 0 and alerts:
        return []
    return [f"a million processes: exit {done.returncode}, {kills} kills, {len(alerts)} alerts: {done.stderr.strip()[-200:]}"]


if __name__ == "__main__":
    sys.exit(main())
