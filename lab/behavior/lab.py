#!/usr/bin/env python3
# The seven remedies of the published study of resource exhaustion: published figures before, measured ones after.
"""Experiments of `make lab-behavior`.

A published study of Slips 1.1.16 (10 GB of memory, killed by the kernel five times) ends with seven proposals. Each is
an experiment here, on logs generated from the corpus: the figure of the study or its project, and Gabion's.
The experiment creates a cgroup of 256 MiB if it can (as root); otherwise that part is skipped with a message.

  lab/behavior/lab.py [--binary PATH] [--small]      --small: a tenth of every input, to check that everything runs
"""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "bench")]
import flow_logs
from bench import TARGET, measure
from flows import latency
from kernel import MemoryGroup

LIMIT = 256 << 20
rows = []


def report(remedy, what, before, after, is_met):
    rows.append((remedy, what, before, after, is_met))
    print(f"{'met  ' if is_met else 'MISSED'} {remedy}: {what}\n       before: {before}\n       after:  {after}", flush=True)


def rate(binary, path, count, *more):
    with tempfile.TemporaryDirectory() as out:
        r = measure([binary, "read", str(path), "--behavior", "-q", "-l", out, *more])
    r["rate"] = count / max(r["cpu"], 1e-9)
    return r


def backpressure(o, work):
    count = 10_000_000 // o.scale
    path = work / "spoofed.conn.log"
    flow_logs.flood("spoofed", count, path)
    cgroup = MemoryGroup.make(LIMIT)
    if cgroup is None:
        print("backpressure: cgroup: skipped: can't create a memory cgroup (needs root)")
        r = rate(o.binary, path, count)
        report("1 backpressure", f"{count} flows of spoofed sources", "10 GB used up, 2 of its processes killed",
             f"exit {r['exit']}, peak {r['rss_mib']:.0f} MiB (no cgroup)", r["exit"] == 0 and r["rss_mib"] <= 256)
    else:
        try:
            with tempfile.TemporaryDirectory() as out:
                done, peak, kills = cgroup.run([o.binary, "read", str(path), "--behavior", "--json", "-q", "-l", out])
                summary = json.loads(done.stdout or "{}")
                found = "From 203.0.113.9 to" in (pathlib.Path(out) / "alerts.log").read_text()
            balanced = all(summary.get(k, {}).get("balanced") for k in ("ledger", "sources"))
            report("1 backpressure", f"{count} flows of spoofed sources in a cgroup of 256 MiB, a scanner among them",
                 "10 GB used up, 2 of its processes killed, oom_kill 5",
                 f"exit {done.returncode}, kills {kills}, peak {peak >> 20} MiB with page cache, ledger "
                 f"{'balanced' if balanced else 'NOT BALANCED'}, scanner {'found' if found else 'NOT FOUND'}",
                 done.returncode == 0 and kills == 0 and balanced and found)
        finally:
            cgroup.remove()
    path.unlink()


def health(o, work):
    """A worker that dies or stalls: a test of the engine simulates it."""
    test = ["cargo", "test", "-q", "--locked", "-p", "gabion-sensor", "--lib",
            "a_lost_worker_is_reported_and_counted", "--", "--nocapture"]
    done = subprocess.run(test, cwd=HERE.parent.parent, capture_output=True, text=True)
    passed = done.returncode == 0 and "1 passed" in done.stdout
    after = dict(re.findall(r"(Panics|Stalls): reported ([0-9.]+) s", done.stdout))
    in_time = len(after) == 2 and all(float(seconds) <= 2 for seconds in after.values())
    report("2 health", "a worker panics, another stalls", "zombies, run for hours doing nothing",
         f"reported {after.get('Panics')} s and {after.get('Stalls')} s after the run began, "
         f"{'counted, the run ends' if passed else 'NOT COUNTED'}", passed and in_time)


def batches(o, work, path, count):
    r = rate(o.binary, path, count)
    report("3 batches", "flows a CPU second, ordinary log", "80 to 200 a second with 5 processes",
         f"{r['rate'] / 1000:.0f} k a CPU second, without a store", r["rate"] > 100_000)
    return r


def constant_time(o, work, base):
    path, count = work / "ports.conn.log", 1_000_000 // o.scale
    flow_logs.flood("ports", count, path)
    r = rate(o.binary, path, count)
    report("4 work per flow", f"scans of 65,536 ports, {count} flows",
         "add_flow_to_profile grows with what a profile has seen",
         f"{r['rate'] / base['rate']:.2f} of the ordinary log's rate, {r['rss_mib']:.0f} MiB",
         r["rate"] >= 0.8 * base["rate"] and r["rss_mib"] <= 256)
    path.unlink()


def parallel(o, work, path, count):
    one = min(rate(o.binary, path, count)["wall"] for _ in range(3))
    two = min(rate(o.binary, path, count, "--workers", "2")["wall"] for _ in range(3))
    report("5 parallelism", "two workers against one, wall time", "threads of one interpreter", f"{one / two:.2f} times as fast",
         one / two >= 1.5 or os.cpu_count() < 2)


def adaptive(o, work):
    """Live: the time until a finding is written, with workers that start when they are needed."""
    per_second = 50_000 // o.scale
    r = latency(o.binary, per_second, 4, 2)
    late = r["late"] or [float("inf")]
    p99 = late[min(len(late) - 1, int(len(late) * 0.99))]
    report("6 as many workers as needed", f"{per_second} flows a second, from the flow written to its evidence",
         "workers judged every 5 min; latency p99 17,715 s",
         f"p99 {p99 * 1000:.0f} ms, at most {late[-1] * 1000:.0f} ms of {len(late)}, {r['missing']} missing, exit {r['exit']}",
         p99 <= 1.0 and r["missing"] == 0 and r["exit"] == 0)


def expiry(o, work):
    """Twelve hours with other hosts each hour: memory stays constant."""
    peaks = []
    for hours in (2, 12):
        path = work / "hours.conn.log"
        with open(path, "w") as file:
            file.write(flow_logs.HEADER)
            per_hour = 200_000 // o.scale
            for n in range(per_hour * hours):
                hour, at = divmod(n, per_hour)
                file.write(f"{flow_logs.START + hour * 3600 + at * 3600 / per_hour:.6f}\tC{n:x}\t10.{hour}.{at % 5000 >> 8}.{at % 5000 & 255}"
                           + flow_logs.REST % (f"20.0.{at % 97}.{at % 251}", 445))
        peaks.append(rate(o.binary, path, per_hour * hours)["rss_mib"])
        path.unlink()
    report("7 expiry", "2 and 12 hours, new hosts each hour", "memory grows until the kernel kills",
         f"{peaks[0]:.0f} and {peaks[1]:.0f} MiB", peaks[1] <= peaks[0] * 1.25 + 8)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=str(TARGET / "release/gabion"))
    a.add_argument("--small", action="store_true", help="a tenth of every input")
    o = a.parse_args()
    o.scale = 10 if o.small else 1
    if not flow_logs.FLOWS.is_dir():
        print(f"lab-behavior: skipped: no corpus at {flow_logs.CORPUS} (set GABION_CORPUS)")
        return 0
    work = TARGET / "lab/behavior"
    work.mkdir(parents=True, exist_ok=True)
    path, count = work / "ordinary.conn.log", 1_000_000 // o.scale
    flow_logs.plain(count, path, False)
    backpressure(o, work)
    health(o, work)
    base = batches(o, work, path, count)
    constant_time(o, work, base)
    parallel(o, work, path, count)
    adaptive(o, work)
    expiry(o, work)
    path.unlink()
    with open(work / "report.md", "w") as file:
        file.write("| remedy | experiment | before, as published | after, measured here | bar |\n|---|---|---|---|---|\n")
        for remedy, what, before, after, is_met in rows:
            file.write(f"| {remedy} | {what} | {before} | {after} | {'met' if is_met else 'missed'} |\n")
    print(f"written: {work / 'report.md'}")
    return 0 if all(r[4] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
