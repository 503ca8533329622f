#!/usr/bin/env python3
# Floods a router in namespaces of its own as in the thread of 2004, with and without the guard, and judges the bars.
"""Experiments of `make lab-guard`.

Everything happens in network namespaces that the lab makes. On the host it changes only priorities of ksoftirqd and RCU,
and, for single cases, the settings that the report lists; each is undone, also after a crash. A run with more than 10 %
of steal, or with less offered than 1.2 times what the budget admits where that matters, is repeated twice at most, and
then not judged. What is missing here skips its rows by name.

  lab/guard/lab.py [--binary PATH] [--quick] [--runs N] [--only NAME] [--neighbours] [--seed N]
"""
import argparse, json, os, pathlib, random, shutil, statistics, subprocess, sys, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "network")]
import cases, costs, judge, pages
from kernel import Undo
from place import Place
from run import BUDGET, run

ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
STEAL_MOST, TRIES = 10.0, 3


def can_run(binary):
    """Why the lab can't run here, or None."""
    if os.geteuid() != 0:
        return "needs root for network namespaces and BPF programs"
    if (os.cpu_count() or 1) < 2:
        return "needs two CPUs: one that sends, one that suffers"
    for tool in ("ip", "zstd", "cc"):
        if not shutil.which(tool):
            return f"needs {tool}"
    if not pathlib.Path(binary).exists():
        return f"{binary} is not there: cargo build --release -p gabion"
    done = subprocess.run([binary, "probe", "check", "--json"], capture_output=True, text=True)
    features = json.loads(done.stdout or "{}")
    for name in ("programs", "btf", "softirq", "xdp"):
        if name in features and not features[name]["works"]:
            return f"{name}: {features[name].get('error')}"
    return None


class Lab:
    """All runs, repeated where they can't be judged."""

    def __init__(self, o, place, work):
        self.o, self.place, self.work, self.random = o, place, work, random.Random(o.seed)
        self.all = {}

    def once(self, case):
        """A run of a case; `not_judged` says why it can't be judged after all tries."""
        for attempt in range(1 if self.o.quick else TRIES):
            self.place.kept = len(self.place.undo.entries)
            try:
                found = run(self.place, self.o.binary, case, self.random.randrange(1, 1 << 30), self.work / "run")
            except OSError as e:
                found = {"case": case.name, "refused": str(e)}
            if found.get("refused"):
                break
            why = judge.unfit(case, found, STEAL_MOST)
            if not why:
                break
            found["not_judged"] = why
        for key in ("steal", "foreign"):
            found.setdefault(key, 0.0)
        line = found.get("refused") or found.get("not_judged") or ""
        if not found.get("refused"):
            print(f"  {case.name:32} offered {found['offered_kpps']:6.0f} kpps  packet work {found['share']:5.1f} %  gap {found['gap_ms']:6.1f} ms "
                  f"({found['gap_work_ms']:5.1f} packets)  protected lost {found['protected_lost']:5.1f} %  steal {found['steal']:.0f}, "
                  f"foreign {found['foreign']:.0f} %  {line}", flush=True)
        else:
            print(f"  {case.name:32} refused: {line}", flush=True)
        return found

    def shuffled(self, title, all_cases, runs):
        """Each case this many times, in a shuffled order."""
        print(f"\n{title}", flush=True)
        todo = [case for case in all_cases for _ in range(runs)]
        self.random.shuffle(todo)
        for case in todo:
            found = self.once(case)
            self.all.setdefault(case.name, []).append(found)
        return [case.name for case in all_cases]

    def only_once(self, title, list_of):
        """Cases that are looked at one by one: (expected, case)."""
        print(f"\n{title}", flush=True)
        result = []
        for *about, case in list_of:
            found = self.once(case)
            recording = self.work / "run" / "run.csv.zst"
            if recording.exists() and not found.get("refused"):
                found["report"] = self.report(recording)
            result.append((about, case.name, found))
        return result

    def report(self, recording):
        """What `guard report` says of the recording: the cause of its last incident."""
        out = self.work / "report"
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run([self.o.binary, "guard", "report", recording, "-l", out, "--overwrite"], capture_output=True, text=True)
        path = out / "guard.json"
        events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        named = [e["cause"] for e in events if e["event"] == "cause"]
        ends = [e for e in events if e["event"] in ("end", "cut-off")]
        return {"exit": done.returncode, "incidents": len(ends), "cause": named[-1] if named else None, "lines": done.stdout.splitlines()}


def median(runs, key):
    known = [r[key] for r in runs if not r.get("refused") and not r.get("not_judged") and r.get(key) is not None]
    return statistics.median(known) if known else None


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=os.environ.get("GABION", str(TARGET / "release/gabion")))
    a.add_argument("--quick", action="store_true", help="90 s: the main cases once each")
    a.add_argument("--runs", type=int, help="runs of each case [5]")
    a.add_argument("--only", choices=("thread", "knobs", "guard", "grace", "causes", "fresh", "costs"))
    a.add_argument("--neighbours", action="store_true", help="also fill the table of neighbours, which the host shares")
    a.add_argument("--seed", type=int, default=int(time.time()))
    o = a.parse_args()
    why = can_run(o.binary)
    if why:
        print(f"lab-guard: skipped: {why}")
        return 0
    runs = o.runs or (1 if o.quick else 5)
    work = TARGET / "lab/guard"
    (work / "run").mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", work / "load", HERE / "load.c"], check=True)
    undo = Undo(work / "undo.json")
    place = Place(undo, work / "load")
    place.kept = len(undo.entries)
    lab = Lab(o, place, work)
    began = time.monotonic()
    wanted = lambda name: o.only in (None, name)
    only = {}
    if wanted("thread"):
        all_cases = [*cases.thread(), *([] if o.quick else [cases.throttle_rcu(place)])]
        lab.shuffled("The thread: forwarding, as in 2004", all_cases, runs)
    if wanted("knobs") and not o.quick:
        lab.shuffled("Settings of Linux alone", list(cases.knobs(place)), min(runs, 3))
    if wanted("guard"):
        quick = ("calm, guard", "flood", "flood, guard", "live frames, guard")
        lab.shuffled("The guard", [c for c in cases.guard() if not o.quick or c.name in quick], runs)
        if not o.quick:
            lab.shuffled("The guard without its share of the CPU", list(cases.starved()), 1)
    if wanted("grace") and not o.quick:
        lab.shuffled("Grace periods", list(cases.grace()), 3)
    if wanted("causes"):
        list_of = list(cases.causes(place, o.neighbours))
        only["causes"] = lab.only_once("Causes", [c for c in list_of if not o.quick or c[0] in ("one-large-flow", "not-packets")])
    if wanted("fresh") and not o.quick:
        only["fresh"] = lab.only_once("Recordings that no constant was fitted to", cases.fresh())
    if wanted("costs"):
        only["costs"] = costs.measure(place, o.binary, work, o.quick)
    bars = judge.bars(lab.all, only)
    page = pages.build(lab.all, only, bars, median, BUDGET, time.monotonic() - began)
    path = work / "report.html"
    path.write_text(page.html())
    (work / "figures.json").write_text(json.dumps({"runs": lab.all, "bars": [b.__dict__ for b in bars]}, indent=1, default=str))
    print(f"\nwritten: {path}, {work / 'figures.json'}; {time.monotonic() - began:.0f} s, seed {o.seed}")
    missed = [b.what for b in bars if b.verdict == "missed"]
    if missed:
        print(f"lab-guard: missed: {'; '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
