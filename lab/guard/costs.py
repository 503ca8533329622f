# What the guard's programs cost: by the kernel's own statistics of programs, and by test runs.
"""Nanoseconds above empty programs that are attached in the same run, as a hit of a tracepoint costs some anyway."""
import os, pathlib, re, shutil, subprocess, sys, time

from kernel import empty_program, grown, programs, run_seconds, statistics_on
from place import GENERATOR, VICTIM_CPU
from run import Case, Guard

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OURS = ("softirq_entry", "softirq_exit", "napi_poll", "sched_switch")
# Looks at heads of packets, for who floods, only in the first 1.2 s of an incident: no instrument, and shown by itself.
WHO = "sample"


def measure(place, binary, work, is_quick):
    """{cost: figure} for the table of bars; `why` where something could not be measured."""
    print("\nCosts", flush=True)
    found = {}
    try:
        counting = statistics_on()
    except OSError as e:
        return {"why": f"statistics of programs: {e.strerror}"}
    held = [counting]
    try:
        for tracepoint in ("softirq_entry", "softirq_exit"):
            held += empty_program(tracepoint)
        runs = [during(place, binary, work, {}) for _ in range(1 if is_quick else 5)]
        # 30,000 packets a second one by one: each pair finds cold caches, and the guard leaves no detail out yet.
        sparse = sorted(p for p, _, _ in (during(place, binary, work, {"rate": 30_000}) for _ in range(1 if is_quick else 3)) if p is not None)
        pairs = sorted(pair for pair, _, _ in runs if pair is not None)
        if pairs:
            found["softirq_pair"] = pairs[len(pairs) // 2]
            found["softirq_pair_note"] = f"in the flood: {', '.join(f'{p:.0f}' for p in pairs)}; at 30 kpps: {', '.join(f'{p:.0f}' for p in sparse)}"
        shares = sorted(share for _, share, _ in runs)
        found["instruments"] = shares[len(shares) // 2]
        who = sorted(share for _, _, share in runs)[len(runs) // 2]
        found["instruments_note"] = (f"of one CPU: programs of both CPUs with statistics on, and the probes on the victim's in the calm; heads of packets "
                                     f"take {who:.1f} % more in the first 1.2 s")
    finally:
        for fd in held:
            os.close(fd)
    if not is_quick:
        found.update(test_runs())
    print("  " + ", ".join(f"{k} {v:.1f}" for k, v in found.items() if isinstance(v, float)), flush=True)
    return found


def during(place, binary, work, flood):
    """While a flood is watched: ns of a pair above an empty pair; percent of a CPU in all instruments; in heads of packets."""
    case = Case("cost", flood=flood)
    folder = work / "run"
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    place.forward(False)
    place.receive_offload(False)
    guard = Guard(place, binary, case, folder)
    try:
        # In the calm: in a flood the time of a thread includes softirqs that interrupt it.
        calm, since = probes_of(guard.process.pid), time.monotonic()
        time.sleep(1)
        calm = (probes_of(guard.process.pid) - calm) / (time.monotonic() - since)
        options = {"if": "vg", "to": place.mac["vr"], "start": time.monotonic_ns() + 100_000_000, "milliseconds": 1600, **flood}
        role = place.role("flood", GENERATOR, **options)
        time.sleep(0.3)
        before, since = programs(), time.monotonic()
        time.sleep(1.2)
        did, seconds = grown(before, programs()), time.monotonic() - since
        role.communicate()
    finally:
        guard.end()
    mean = lambda name: did[name][1] / did[name][0] if did.get(name, (0, 0))[0] else None
    entry, leave, empty = mean("softirq_entry"), mean("softirq_exit"), mean("lab_empty")
    pair = entry + leave - 2 * empty if None not in (entry, leave, empty) else None
    share = lambda *names: 100 * sum(did.get(name, (0, 0))[1] for name in names) / 1e9 / seconds
    return pair, share(*OURS) + 100 * calm, share(WHO)


def probes_of(pid):
    """CPU seconds of the guard's threads that measure on the victim's CPU."""
    result = 0.0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            cpu = int((task / "stat").read_text().rsplit(")", 1)[1].split()[36])
            is_probe = (task / "comm").read_text().strip() in ("gap probe", "grace periods")
            result += run_seconds(task.name) if is_probe and cpu == VICTIM_CPU else 0.0
        except OSError:
            continue
    return result


def test_runs():
    """The throttle's cost for a packet, by test runs of its program: the test that prints it."""
    argv = ["cargo", "test", "-q", "--locked", "-p", "gabion-kernel-tests", "--test", "throttle", "the_cost_of_a_packet_is_printed", "--", "--nocapture"]
    text = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True).stdout
    figures = re.search(r"empty Some\((\d+)\) ns, known Some\((\d+)\) ns, refused Some\((\d+)\) ns", text)
    if not figures:
        print("  test runs: skipped: the test did not print its figures", file=sys.stderr)
        return {}
    empty, known, refused = map(float, figures.groups())
    note = f"empty {empty:.0f} ns; the least of 5 runs of 200,000"
    return {"known": known - empty, "known_note": note, "refused": refused - empty, "refused_note": note}
