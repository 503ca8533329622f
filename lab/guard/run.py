# One run of the guard's lab: starts the guard, its load and its victims, and reads what they measured.
"""A run lasts 3 s, of which 2 s are flood. Packet work comes from the guard's own recording (buckets of 4 ms), gaps,
losses and grace periods from programs that know nothing of the guard. All clocks are the monotonic one."""
import collections, dataclasses, json, os, pathlib, re, shutil, signal, subprocess, threading, time

from kernel import all_seconds, processor_times
from place import GENERATOR, HEAVY, ROUTER, SENDER_CPU, VICTIM_CPU, device, wait_for

BUCKET_NS = 4_000_000
WINDOW_NS = 200_000_000
# How many times of what the budget admits has to be offered.
ENOUGH = 1.2
BUDGET = 30


@dataclasses.dataclass
class Case:
    """What one run does. `guard` is None, `watch`, `native` or `generic`; `flood` the options of the sender."""
    name: str
    guard: str = "watch"
    flood: dict = None
    weight: int = 1
    is_live: bool = False
    is_forwarded: bool = False
    is_elsewhere: bool = False
    guard_weight: int = 1
    has_real_time: bool = True
    may_set_priority: bool = True
    milliseconds: int = 3000
    quiet_ms: int = 500
    flood_ms: int = 2000
    has_users: bool = True
    budget: int = BUDGET
    needs_napi: bool = False
    is_early: bool = False
    # May look at packets at tcx; without, flows are not sampled.
    may_see_packets: bool = True
    also: str = ""
    before: object = None
    after: object = None
    extra: object = None


def values(text):
    """Lines of `name value` as a dict; lines of three are left to the caller."""
    return {parts[0]: int(parts[1]) for parts in map(str.split, text.splitlines()) if len(parts) == 2 and parts[1].isdigit()}


def triples(text, name):
    return [(int(p[1]), int(p[2])) for p in map(str.split, text.splitlines()) if len(p) == 3 and p[0] == name]


class Recording:
    """The buckets of a recording: `columns[name][cpu]` is a list by bucket from `zero_ns` of the monotonic clock."""

    def __init__(self, path):
        text = subprocess.run(["zstd", "-dqc", path], capture_output=True, text=True).stdout
        self.head = dict(re.findall(r"^# ?(\w+)=(.*)$", text, re.M))
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        names = lines[0].split(",") if lines else []
        if "monotonic_us" in self.head:
            self.zero_ns = int(self.head["monotonic_us"]) * 1000
        else:
            # An older program: to a bucket or so.
            began = int(float(self.head.get("started", 0)) * 1e9) - time.time_ns() + time.monotonic_ns()
            self.zero_ns = began // BUCKET_NS * BUCKET_NS
        rows = [line.split(",") for line in lines[1:]]
        last = max((int(float(r[0])) // 4 for r in rows), default=-1)
        cpus = max((int(r[1]) for r in rows), default=1) + 1
        self.columns = {name: [[0] * (last + 1) for _ in range(cpus)] for name in names[2:]}
        for r in rows:
            at, cpu = int(float(r[0])) // 4, int(r[1])
            for name, value in zip(names[2:], r[2:]):
                if value:
                    self.columns[name][cpu][at] = int(float(value))

    def bucket(self, ns):
        return max(0, (ns - self.zero_ns) // BUCKET_NS)

    def of(self, name, cpu=VICTIM_CPU):
        return self.columns.get(name, [[], []])[cpu] if self.columns.get(name) else []

    def work(self, cpu=VICTIM_CPU):
        """Microseconds of packet work by bucket."""
        rx, napi = self.of("rx_us", cpu), self.of("napi_kth_us", cpu)
        return [min(4000, a + b) for a, b in zip(rx, napi or [0] * len(rx))]


def counters_of(path):
    """Rows of the throttle's counters: a list of dicts."""
    text = subprocess.run(["zstd", "-dqc", path], capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    names = lines[0].split(",") if lines else []
    return [dict(zip(names, (int(float(v or 0)) for v in line.split(",")))) for line in lines[1:]]


def quantile(sorted_values, part):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * part))] if sorted_values else None


class Route:
    """Entries and overflows of the route cache of a namespace, read while a flood lasts."""

    def __init__(self, pid):
        self.path, self.most, self.overflow, self.first = f"/proc/{pid}/net/stat/rt_cache", 0, 0, None
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.is_over.wait(0.05):
            try:
                names, *lines = open(self.path).read().splitlines()
            except (OSError, ValueError):
                return
            names = names.split()
            rows = [dict(zip(names, (int(x, 16) for x in line.split()))) for line in lines]
            self.most = max(self.most, rows[0].get("entries", 0))
            overflow = sum(row.get("gc_dst_overflow", row.get("dst_overflow", 0)) for row in rows)
            self.first = overflow if self.first is None else self.first
            self.overflow = overflow - self.first

    def end(self):
        self.is_over.set()
        self.thread.join()
        return self.most, self.overflow


class Guard:
    """The guard under test as a process: `watch`, or `enforce` with XDP."""

    def __init__(self, place, binary, case, folder):
        self.recording, self.folder = folder / "run.csv.zst", folder
        self.output = folder / "guard.txt"
        self.scheduling = ""
        argv = [binary, "guard", "watch" if case.guard == "watch" else "enforce", "--interface", "vr", "--budget", case.budget,
                "--record", self.recording, "--record-all", "-l", folder,
                # It ends by itself where the lab was killed.
                "--seconds", 30 + case.milliseconds // 1000]
        if case.guard != "watch":
            argv += ["--allow", "udp/7777", "--cpu", VICTIM_CPU]
        if case.guard == "generic":
            argv.append("--generic")
        if case.also:
            argv += ["--also", case.also, "--undo-dir", folder / "undo"]
        if not case.may_set_priority:
            argv = ["setpriv", "--bounding-set", "-sys_nice", *argv]
        if not case.may_see_packets:
            # CAP_SYS_ADMIN includes it for BPF programs.
            argv = ["setpriv", "--bounding-set", "-net_admin,-sys_admin", *argv]
        group = place.groups.get("guard")
        if group:
            group.weigh(HEAVY / case.guard_weight)
            group.allow_real_time(case.has_real_time)
        # Each line with the moment at which it can be read, which is when an operator knows of it.
        self.lines = []
        self.process = place.start(argv, ROUTER, "guard", stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        ready = self.recording.exists if case.guard == "watch" else lambda: "attached" in self.text()
        if not wait_for(lambda: ready() or self.process.poll() is not None) or self.process.poll() is not None:
            self.end()
            raise OSError(self.text().strip() or "the guard did not start")

    def end(self):
        if self.process.poll() is None:
            self.scheduling = scheduling(self.process.pid)
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        self.output.write_text(self.text())

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic_ns(), line))

    def text(self):
        return "".join(line for _, line in self.lines)

    def first_line(self, pattern, after_ns):
        """When the first line that matches could be read, in ms after a moment; None if there is none."""
        found = next((at for at, line in self.lines if at >= after_ns and re.search(pattern, line)), None)
        return None if found is None else (found - after_ns) / 1e6

    def events(self):
        path = self.folder / "guard.json"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def scheduling(pid):
    """How the kernel schedules the guard's controller, which is its first thread."""
    try:
        return {0: "SCHED_OTHER", 1: "SCHED_FIFO", 6: "SCHED_DEADLINE"}.get(os.sched_getscheduler(pid) & 0xff, "")
    except OSError:
        return ""


def run(place, binary, case, seed, folder):
    """Runs a case once and returns its figures."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    place.forward(case.is_forwarded)
    place.receive_offload(case.is_live or case.needs_napi)
    if place.groups.get("user"):
        place.groups["user"].weigh(HEAVY / case.weight)
    refused = case.before() if case.before else None
    if refused:
        if case.after:
            case.after()
        return {"case": case.name, "refused": refused}
    found = {"case": case.name, "seed": seed}
    guard = Guard(place, binary, case, folder)
    before = {name: device(ns, name) for ns, name in ((GENERATOR, "vg"), (ROUTER, "vr"))}
    roles = {}
    try:
        listening = place.role("listen", group="user", cpu=VICTIM_CPU, milliseconds=case.milliseconds)
        listening.stdout.readline()
        time.sleep(0.05)
        start = time.monotonic_ns() + 150_000_000
        times = {"start": start, "milliseconds": case.milliseconds}
        flood_start = start + case.quiet_ms * 1_000_000
        roles["talk"] = place.role("talk", GENERATOR, new_from_ms=0, **times)
        if case.has_users:
            roles["spin"] = place.role("spin", group="user", cpu=VICTIM_CPU, **times)
        roles["grace"] = place.role("grace", **times)
        if case.flood is not None:
            name = "wg" if case.is_elsewhere else "vg"
            options = {"if": name, "to": place.mac["wr" if case.is_elsewhere else "vr"], "start": start if case.is_early else flood_start,
                       "milliseconds": case.flood_ms + (case.quiet_ms if case.is_early else 0), "seed": seed, **case.flood}
            roles["flood"] = place.role("live" if case.is_live else "flood", GENERATOR, **options)
        if case.extra:
            roles["extra"] = case.extra(flood_start, case.flood_ms)
        cpu, all_tasks, own = processor_times(), all_seconds(), place.own_seconds()
        route = Route(listening.pid)
        out = {name: role.communicate()[0] for name, role in roles.items()}
        now, all_after, own_after = processor_times(), all_seconds(), place.own_seconds()
        found["route_entries"], found["route_overflow"] = route.end()
        out["listen"] = listening.communicate()[0]
        time.sleep(0.05)
    finally:
        for role in roles.values():
            if role.poll() is None:
                role.kill()
        guard.end()
        if case.after:
            case.after()
    total = sum(now.values()) - sum(cpu.values())
    found["steal"] = (now["steal"] - cpu["steal"]) / max(total, 1e-9) * 100
    found["foreign"] = max(0.0, (all_after - all_tasks) - (own_after - own)) / max(total, 1e-9) * 100
    sent = values(out.get("flood", ""))
    found["sent"] = sent.get("sent", 0)
    first = sent.get("first") or flood_start
    last = sent.get("last") or flood_start + case.flood_ms * 1_000_000
    found["offered_kpps"] = found["sent"] / max(last - first, 1) * 1e6
    first = max(first, flood_start)
    recording = Recording(guard.recording)
    if case.is_live:
        # The kernel prepares its pages before the first frame.
        first = arrival(recording, first)
    measured(found, recording, first, last, out, case)
    if case.guard != "watch":
        throttled(found, guard, first, last, before, case)
    causes(found, guard, first)
    return found


def arrival(recording, first):
    """The first bucket in which more packet work is done than ordinary traffic takes."""
    work = recording.work()
    for at in range(recording.bucket(first), len(work)):
        if work[at] > 200:
            return recording.zero_ns + at * BUCKET_NS
    return first


def work_within(recording, work, start, end):
    """The most packet work, in ms, that can lie between two times: of a bucket at the edge, not more than its part of the time."""
    most = 0
    for at in range(recording.bucket(start), min(recording.bucket(end), len(work) - 1) + 1):
        first = recording.zero_ns + at * BUCKET_NS
        overlap = min(end, first + BUCKET_NS) - max(start, first)
        most += max(0, min(work[at] * 1000, overlap))
    return most / 1e6


def measured(found, recording, first, last, out, case):
    """What the recording and the victims say of the flood."""
    work = recording.work()
    a, b = recording.bucket(first), min(recording.bucket(last), len(work) - 1)
    flood = work[a:b] or [0]
    found["share"] = sum(flood) / len(flood) / 40
    windows = [sum(work[i:i + 50]) / 50 / 40 for i in range(max(0, a - 25), max(1, min(b, len(work) - 50)))]
    found["share_200ms"] = max(windows, default=found["share"])
    found["first_bucket_us"] = max(work[a:a + 2], default=0)
    found["ksoftirqd"] = sum(recording.of("rx_ksd_us")[a:b]) / max(1, b - a) / 40
    found["sender_share"] = sum(recording.work(SENDER_CPU)[a:b]) / max(1, b - a) / 40
    found["packets_us"] = (sum(flood) / max(1, sum(recording.of("pkts")[a:b]))) or None
    gaps = triples(out.get("spin", ""), "gap")
    found["gap_ms"] = max((ns for _, ns in gaps), default=0) / 1e6
    excess = within = 0
    for at, ns in gaps:
        inside = work_within(recording, work, at, at + ns)
        within = max(within, inside)
        excess = max(excess, inside - 0.3 * ns / 1e6)
    found["gap_work_ms"], found["gap_excess_ms"] = within, excess
    spun = values(out.get("spin", ""))
    if spun:
        found["user_cpu"] = spun["cpu"] / (case.milliseconds * 1e6) * 100
    talked, heard = values(out["talk"]), values(out["listen"])
    for name in ("protected", "established", "new"):
        found[f"{name}_lost"] = 100 * (1 - heard.get(name, 0) / max(1, talked.get(name, 0)))
    found["talk_sent"] = talked
    found["protected_p99_ms"] = heard.get("p99", 0) / 1e6
    grace = triples(out["grace"], "grace")
    flooded = [(at, ns) for at, ns in grace if first <= at < last]
    found["grace"] = {"flood": [ns / 1e6 for _, ns in flooded], "calm": [ns / 1e6 for at, ns in grace if at + ns < first]}
    found["grace_max"] = max(found["grace"]["flood"], default=0)
    found["company"] = accompanied(recording, flooded)


def accompanied(recording, grace):
    """Softirq runs a ms, and the share of time in NET_RX, in the longest 5 % of grace periods and in the rest."""
    runs, work = recording.of("rx_n"), recording.work()
    grace = sorted(grace, key=lambda g: -g[1])
    cut = max(1, len(grace) // 20)
    result = []
    for part in (grace[:cut], grace[cut:]):
        n = t = ms = 0
        for at, ns in part:
            i, j = recording.bucket(at), recording.bucket(at + ns)
            n, t, ms = n + sum(runs[i:j + 1]), t + sum(work[i:j + 1]), ms + 4 * (j + 1 - i)
        result.append((n / ms, t / ms / 10) if ms else (0, 0))
    return result


def throttled(found, guard, first, last, before, case):
    """What the throttle says it did, compared with what was sent."""
    rows = counters_of(str(guard.recording).replace(".csv.zst", ".xdp.csv.zst"))
    drops = ("drop_budget", "drop_charge", "drop_pkt", "drop_new")
    total = lambda row: sum(row.get(name, 0) for name in ("pass", "allow", "other", "exempt", *drops))
    found["xdp"] = rows[-1] if rows else {}
    zero = Recording(guard.recording).zero_ns
    inside = [r for r in rows if first <= zero + r["t_ms"] * 1_000_000 < last]
    if len(inside) > 1:
        seconds = (inside[-1]["t_ms"] - inside[0]["t_ms"]) / 1000
        offered = (total(inside[-1]) - total(inside[0])) / max(seconds, 1e-9)
        cost = sorted(r.get("cost_ns", 0) for r in inside)[len(inside) // 2]
        found["offered_load"] = offered * cost / 1e9 * 100 / case.budget
        found["cost_ns"] = cost
        work, offered = 0, []
        for earlier, r in zip(inside, inside[1:]):
            work += (total(r) - total(earlier)) * r.get("cost_ns", 0)
            offered.append((zero + r["t_ms"] * 1_000_000, work))
        found["share_200ms_least"] = least_share(Recording(guard.recording), offered, first + WINDOW_NS, last, case.budget)
    text = guard.text()
    # A throttle that was detached midway has not seen all.
    detached = "is left for" not in text and re.search(r"detached: (\d+) packets, (\d+) passed, dropped: (.*)", text)
    if detached:
        received, passed = int(detached[1]), int(detached[2])
        shed = {name: int(n) for name, n in re.findall(r"(\w[\w ]*?) (\d+)(?:,|$)", detached[3])}
        after = {name: device(ns, name) for ns, name in ((GENERATOR, "vg"), (ROUTER, "vr"))}
        # What the ring before the throttle had no space for; later drops are of packets that passed.
        lost = after["vg"]["tx_dropped"] - before["vg"]["tx_dropped"]
        put = sum(after["vg"][k] - before["vg"][k] for k in ("tx", "tx_dropped"))
        found["account"] = {"sent": put, "received": received, "passed": passed, "shed": sum(shed.values()), "device": lost, "by": shed,
                            "missing": put - lost - received, "unbalanced": received - passed - sum(shed.values())}
    dropped = found["xdp"].get("allow", 0)
    found["protected_dropped"] = max(0, found["talk_sent"]["protected"] - dropped)


def least_share(recording, offered, first, last, budget):
    """The least share of packet work in a window of 200 ms that was offered enough; None if there is none.

    `offered` has moments and nanoseconds of work that came until then. A window counts if 1.2 times the budget came in
    each quarter of it: otherwise the sender had no processor, and the throttle had nothing to admit."""
    work = recording.work()
    shares = []
    for begin in range(int(first), int(last) - WINDOW_NS, WINDOW_NS // 4):
        quarters = [begin + n * WINDOW_NS // 4 for n in range(5)]
        if all(came(offered, a, b) >= ENOUGH * budget / 100 * (b - a) for a, b in zip(quarters, quarters[1:])):
            at = recording.bucket(begin)
            window = work[at:at + WINDOW_NS // BUCKET_NS]
            shares.append(sum(window) / max(1, len(window)) / 40)
    return min(shares, default=None)


def came(offered, begin, end):
    """Nanoseconds of packet work that were offered in a time; the counters before and after it are at most 9 ms away."""
    inside = [row for row in offered if begin <= row[0] < end]
    return (inside[-1][1] - inside[0][1]) * (end - begin) / max(1, inside[-1][0] - inside[0][0]) if len(inside) > 1 else 0


def causes(found, guard, first):
    """When the guard declared an incident and named its cause, after the first packet."""
    found["incident_ms"] = guard.first_line(r"^incident \d+ began", first)
    found["cause_ms"] = guard.first_line(r"incident \d+ at ", first)
    found["cause"], found["line"] = None, None
    events = guard.events()
    for event in events:
        if event["event"] == "cause":
            found["cause"], found["line"] = event["cause"], event.get("line")
        if event["event"] in ("end", "cut-off"):
            found["line"] = event.get("line")
            found["verdict"] = event.get("verdict")
    found["incidents"] = collections.Counter(e["event"] for e in events)["incident"]
    found["rungs"] = [e["to"] for e in events if e["event"] == "rung"]
    found["says_no_real_time"] = "real-time" in guard.text()
    found["scheduling"] = guard.scheduling
    found["cannot_hold"] = any(e["event"] == "cannot-hold" for e in events)
    found["says_threads_lose"] = "which the guard can't hold" in guard.text()
