#!/usr/bin/env python3
# Repeats the benchmark by which Falco's developers decided to drop enter events, on our probe, in three steps.
"""Experiments of `make lab-syscalls`.

redis-benchmark runs with nothing attached, with our probe, and with our probe and an empty program at sys_enter, which is
what an enter dispatcher costs at the least. The steps are those of the proposal: a call that nobody makes; sendto and
recvfrom; fifteen calls. Requests per second are compared in pairs with the run without programs of the same round. A run
with more than 10 % of steal or foreign load is repeated twice, and then not judged.

  lab/syscalls/lab.py [--binary PATH] [--quick] [--rounds N] [--requests N] [--no-million] [--storm MINUTES]
"""
import argparse, json, os, pathlib, random, re, shutil, statistics, subprocess, sys, time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "network")]
import live, pages
from kernel import Quiet, all_seconds, empty_program, grown, processor_times, programs, run_seconds, statistics_on

ROOT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PORT = 16379
TESTS = "ping_inline,ping_mbulk,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset"
STEPS = {
    "step 1: a call that nobody makes": "open_by_handle_at",
    "step 2: sendto, recvfrom": "sendto,recvfrom",
    "step 3: fifteen calls": "read,write,close,fcntl,gettimeofday,epoll_ctl,epoll_wait,clock_gettime,clock_nanosleep,socket,connect,sendto,"
                             "recvfrom,setsockopt,accept4",
}
WITH = ("ours", "ours + empty sys_enter")
FOREIGN_MOST, TRIES = live.FOREIGN_MOST, live.TRIES


def can_run(binary):
    """Why the lab can't run here, or None."""
    if os.geteuid() != 0:
        return "needs root for BPF programs"
    for tool in ("redis-server", "redis-benchmark", "cc"):
        if not shutil.which(tool):
            return f"needs {tool}: scripts/tools.sh lab"
    if not pathlib.Path(binary).exists():
        return f"{binary} is not there: cargo build --release -p gabion"
    done = subprocess.run([binary, "probe", "check", "--json"], capture_output=True, text=True)
    features = json.loads(done.stdout or "{}")
    for name in ("programs", "btf", "sys_exit"):
        if name in features and not features[name]["works"]:
            return f"{name}: {features[name].get('error')}"
    return None


class Redis:
    """A server on a port of the loopback interface that keeps nothing."""

    def __init__(self, work):
        self.process = subprocess.Popen(["redis-server", "--port", str(PORT), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(work)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(100):
            if subprocess.run(["redis-cli", "-p", str(PORT), "ping"], capture_output=True).stdout.strip() == b"PONG":
                return
            time.sleep(0.05)
        raise OSError("redis-server does not answer")

    def seconds(self):
        return sum(run_seconds(f"{self.process.pid}/task/{task}") for task in os.listdir(f"/proc/{self.process.pid}/task"))

    def end(self):
        self.process.terminate()
        self.process.wait()


def benchmark(requests):
    """Requests a second of each test, and their harmonic mean, which is all requests by all time."""
    started = subprocess.Popen(["redis-benchmark", "-p", str(PORT), "-t", TESTS, "-n", str(requests), "--csv"], stdout=subprocess.PIPE, text=True)
    text = started.stdout.read()
    _, _, usage = os.wait4(started.pid, 0)
    rates = {name: float(rate) for name, rate in re.findall(r'^"([^"]+)","([\d.]+)"', text, re.M)}
    mean = len(rates) / sum(1 / r for r in rates.values()) if rates else 0.0
    return {"rates": rates, "requests_s": mean, "client_cpu": usage.ru_utime + usage.ru_stime}


class Recorder:
    """`gabion probe record` of some calls into memory, and what it says at its end."""

    def __init__(self, binary, calls, cpu=None):
        self.file = pathlib.Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp") / f"gabion-lab-{os.getpid()}.scap"
        self.file.unlink(missing_ok=True)
        self.process = subprocess.Popen([binary, "probe", "record", self.file, "--calls", calls], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=(lambda: os.sched_setaffinity(0, {cpu})) if cpu is not None else None)
        # The first bytes are written when all programs are attached, which waits for the kernel on a busy machine.
        for _ in range(6000):
            if self.process.poll() is not None:
                raise OSError(self.process.stderr.read().strip())
            if self.file.exists() and self.file.stat().st_size > 0:
                break
            time.sleep(0.01)
        else:
            self.process.kill()
            raise OSError("the recorder did not start in 60 s")
        time.sleep(0.2)

    def seconds(self):
        try:
            return sum(run_seconds(f"{self.process.pid}/task/{task}") for task in os.listdir(f"/proc/{self.process.pid}/task"))
        except OSError:
            return 0.0

    def end(self, keep=False):
        self.process.terminate()
        text, errors = self.process.stdout.read(), self.process.stderr.read()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        size = self.file.stat().st_size
        if not keep:
            self.file.unlink()
        counted = re.search(r"(\d+) events of (\d+) calls, (\d+) shed", text)
        mean = re.search(r"(\d+) bytes for each record", text)
        if not counted:
            raise OSError(errors.strip() or text.strip())
        return {"events": int(counted[1]), "calls": int(counted[2]), "shed": int(counted[3]), "record_bytes": int(mean[1]) if mean else 0, "file_bytes": size,
                "reader_cpu": usage.ru_utime + usage.ru_stime, "exit": self.process.returncode}


def once(o, redis, kind, calls):
    """One run of redis-benchmark; repeated where too much else ran."""
    for _ in range(1 if o.quick else TRIES):
        recorder, held = None, ()
        try:
            if kind != "bare":
                recorder = Recorder(o.binary, calls)
            if "sys_enter" in kind:
                held = empty_program("sys_enter")
            server, everything, cpu = redis.seconds(), all_seconds(), processor_times()
            found = benchmark(o.requests)
            found["server_cpu"] = redis.seconds() - server
            now, all_now = processor_times(), all_seconds()
        finally:
            for fd in held:
                os.close(fd)
            if recorder:
                ended = recorder.end()
        if recorder:
            found.update(ended)
        total = max(sum(now.values()) - sum(cpu.values()), 1e-9)
        own = found["server_cpu"] + found["client_cpu"] + found.get("reader_cpu", 0)
        found["steal"] = 100 * (now["steal"] - cpu["steal"]) / total
        found["foreign"] = 100 * max(0.0, all_now - everything - own) / total
        if max(found["steal"], found["foreign"]) <= FOREIGN_MOST:
            return found
        found["not_judged"] = f"{found['steal']:.0f} % steal, {found['foreign']:.0f} % foreign"
    return found


def report(name, kind, found):
    note = found.get("not_judged", "")
    events = f"{found['events']:>9} events, {found['record_bytes']} B, {found['shed']} shed" if "events" in found else ""
    print(f"  {name or 'bare':34} {kind:24} {found['requests_s']:9.0f} requests/s  server {found['server_cpu']:5.2f} s  reader {found.get('reader_cpu', 0):5.2f} s  "
          f"{events}  {note}", flush=True)


def rounds(o, redis, chance):
    """Interleaved rounds: {(step, kind): [run, …]}, with the share of the bare run of the same round."""
    all_of = {}
    for n in range(o.rounds):
        print(f"round {n + 1} of {o.rounds}", flush=True)
        todo = [(None, "bare"), *((step, kind) for step in STEPS for kind in WITH)]
        chance.shuffle(todo)
        this = {}
        for step, kind in todo:
            found = this[(step, kind)] = once(o, redis, kind, STEPS.get(step, ""))
            report(step, kind, found)
        bare = this[(None, "bare")]
        for key, found in this.items():
            found["of_bare"] = 100 * found["requests_s"] / max(bare["requests_s"], 1)
            if bare.get("not_judged"):
                found.setdefault("not_judged", f"bare: {bare['not_judged']}")
            all_of.setdefault(key, []).append(found)
    return all_of


def statistics_of(o, redis, chance):
    """Nanoseconds of our programs by the kernel's own count, above an empty program at sys_exit in the same run. A second
    empty program gives the noise. The steps are interleaved; a run in which too much else ran is repeated."""
    try:
        counting = statistics_on()
    except OSError as e:
        print(f"statistics of programs: skipped: {e.strerror}")
        return {}
    runs = {step: [] for step in STEPS}
    try:
        for _ in range(o.rounds):
            order = list(STEPS)
            chance.shuffle(order)
            for step in order:
                runs[step].append(counted(o, redis, STEPS[step]))
    finally:
        os.close(counting)
    found = {}
    for step, all_of in runs.items():
        good = [r for r in all_of if not r.get("not_judged")]
        middle = lambda key: statistics.median(r[key] for r in good or all_of)
        found[step] = {key: middle(key) for key in ("ours", "empty", "noise", "above", "enter", "runs")}
        if not good:
            found[step]["not_judged"] = all_of[0]["not_judged"]
        f = found[step]
        print(f"  {step:34} {f['ours']:6.1f} ns an exit, empty {f['empty']:.1f}, above it {f['above']:.1f}, noise {f['noise']:.1f}; "
              f"an empty sys_enter {f['enter']:.1f}; {f['runs']:.0f} exits, {len(good)} of {len(all_of)} judged", flush=True)
    return found


def counted(o, redis, calls):
    """One run with our program at sys_exit, two empty ones, and an empty one at sys_enter: means by the kernel's count."""
    for _ in range(1 if o.quick else TRIES):
        recorder = Recorder(o.binary, calls)
        held = (*empty_program("sys_exit"), *empty_program("sys_exit", "lab_noise"), *empty_program("sys_enter", "lab_enter"))
        try:
            before, quiet = programs(), Quiet(FOREIGN_MOST, lambda: redis.seconds() + recorder.seconds())
            benchmark(max(o.requests // 4, 1000))
            did, why = grown(before, programs()), quiet.disturbed()
        finally:
            for fd in held:
                os.close(fd)
            recorder.end()
        mean = lambda name: did[name][1] / did[name][0] if did.get(name, (0, 0))[0] else 0.0
        # Programs that are called by the one at sys_exit count their time and no run of their own.
        ours = sum(ns for name, (_, ns) in did.items() if name.startswith("sys_exit")) / max(did.get("sys_exit", (0, 0))[0], 1)
        result = {"ours": ours, "empty": mean("lab_empty"), "noise": abs(mean("lab_empty") - mean("lab_noise")), "above": ours - mean("lab_empty"),
                  "enter": mean("lab_enter"), "runs": did.get("sys_exit", (0, 0))[0]}
        if not why:
            return result
        result["not_judged"] = why
    return result


# What a call costs: name, the loop, the calls that are recorded, runs of the loop.
COSTS = (("a call of step 1", "getppid", "open_by_handle_at", 1_000_000), ("fixed-size record", "getppid", "getppid", 1_000_000),
         ("missing-file open, merged", "missing", "openat", 200_000), ("open + close with the kernel's path", "open", "openat,close", 150_000))


def one_cost(o, work, chance, loop, calls, count):
    """CPU time of a call in a tight loop above an empty program at sys_exit; empty against empty is the noise."""
    result = timed(o, work, chance, loop, calls, count // 20 if o.quick else count)
    print(f"  {loop:12} {calls:24} {result['ns']:7.1f} ns above empty (least against least {result['least']:.1f}), noise {result['noise']:.1f}, "
          f"empty {result['empty']:.1f}, {result['shed']} shed, {result['repeated']} repeated  {result['not_judged'] or ''}", flush=True)
    return result


def one_loop(o, work, kind, loop, calls, count):
    """One run of the loop, repeated where too much else ran: its nanoseconds, shed records, how often it was repeated, why it can't be judged."""
    for n in range(1 if o.quick else TRIES):
        held, recorder, shed = (), None, 0
        try:
            if kind == "ours":
                recorder = Recorder(o.binary, calls, cpu=(os.cpu_count() or 2) - 1)
            else:
                held = empty_program("sys_exit")
            quiet = Quiet(FOREIGN_MOST, recorder.seconds if recorder else lambda: 0.0)
            done = subprocess.run([work / "calls", loop, str(count)], capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {0}))
            why = quiet.disturbed()
        finally:
            for fd in held:
                os.close(fd)
            if recorder:
                shed = recorder.end()["shed"]
        if not why:
            break
    return float(done.stdout), shed, n, why


def timed(o, work, chance, loop, calls, count):
    """The loop with an empty program, with another one, and with ours, in turn. The machine's speed changes in the course of seconds, so that
    runs of the same round are compared, and the median of their differences counts."""
    times, shed, repeated, unjudged, rounds = {"empty": [], "empty again": [], "ours": []}, 0, 0, [], 3 if o.quick else 11
    for _ in range(rounds):
        order, this = list(times), {}
        chance.shuffle(order)
        for kind in order:
            this[kind], lost, again, why = one_loop(o, work, kind, loop, calls, count)
            shed, repeated = shed + lost, repeated + again
            if why:
                unjudged.append(why)
                break
        else:
            for kind, ns in this.items():
                times[kind].append(ns)
    if len(times["ours"]) <= rounds // 2:
        return {"ns": 0.0, "least": 0.0, "noise": 0.0, "empty": 0.0, "shed": shed, "repeated": repeated, "not_judged": unjudged[0]}
    least = {kind: min(values) for kind, values in times.items()}
    above = lambda kind: statistics.median(ns - empty for ns, empty in zip(times[kind], times["empty"]))
    return {"ns": above("ours"), "least": least["ours"] - least["empty"], "noise": abs(above("empty again")), "empty": statistics.median(times["empty"]),
            "shed": shed, "repeated": repeated, "not_judged": None}


def mix(o, work):
    """Which calls redis and its benchmark make, of the fifteen: {name: share}."""
    # With execve, so that the names of the programs are known.
    fifteen = STEPS["step 3: fifteen calls"]
    recorder = Recorder(o.binary, f"{fifteen},execve")
    benchmark(1000)
    recorder.end(keep=True)
    counted = {}
    with subprocess.Popen([o.binary, "events", recorder.file, "-p", "%evt.type", "proc.name startswith redis"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as events:
        for line in events.stdout:
            if line.strip() in fifteen.split(","):
                counted[line.strip()] = counted.get(line.strip(), 0) + 1
    recorder.file.unlink(missing_ok=True)
    total = max(sum(counted.values()), 1)
    return {name: n / total for name, n in sorted(counted.items(), key=lambda item: -item[1])}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=os.environ.get("GABION", str(TARGET / "release/gabion")))
    a.add_argument("--quick", action="store_true", help="one round of few requests, to check that everything runs")
    a.add_argument("--rounds", type=int)
    a.add_argument("--requests", type=int)
    a.add_argument("--no-million", action="store_true", help="leave out the run with the proposal's 1,000,000 requests")
    a.add_argument("--storm", type=float, metavar="MINUTES", help="a storm of processes against live rules, and the memory it takes [10; --quick 0]")
    a.add_argument("--seed", type=int, default=int(time.time()))
    o = a.parse_args()
    o.rounds = o.rounds or (1 if o.quick else 7)
    o.storm = (0 if o.quick else 10) if o.storm is None else o.storm
    o.requests = o.requests or (5_000 if o.quick else 100_000)
    why = can_run(o.binary)
    if why:
        print(f"lab-syscalls: skipped: {why}")
        return 0
    work = TARGET / "lab/syscalls"
    work.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-O2", "-o", work / "calls", HERE / "calls.c"], check=True)
    began, chance = time.monotonic(), random.Random(o.seed)
    redis, results = Redis(work), {}
    try:
        benchmark(1000)
        results["rounds"] = rounds(o, redis, chance)
        print("statistics of programs", flush=True)
        results["statistics"] = statistics_of(o, redis, chance)
        results["mix"] = mix(o, work)
        results["live"] = live.measure(o, work, redis, benchmark)
        if not (o.quick or o.no_million):
            print("1,000,000 requests, as in the proposal", flush=True)
            short, o.requests = o.requests, 1_000_000
            results["million"] = {(step, kind): once(o, redis, kind, STEPS.get(step, "")) for step, kind in [(None, "bare"), *((s, "ours") for s in STEPS)]}
            for (step, kind), found in results["million"].items():
                report(step, kind, found)
            o.requests = short
    finally:
        redis.end()
    print("costs of a call", flush=True)
    results["costs"] = {name: one_cost(o, work, chance, *about) for name, *about in COSTS}
    if o.storm:
        results["storm"] = live.storm(o, work)
    page, bars = pages.build(results, STEPS, WITH, o, time.monotonic() - began)
    (work / "report.html").write_text(page.html())
    flat = {name: {str(k): v for k, v in value.items()} if isinstance(value, dict) else value for name, value in results.items()}
    (work / "figures.json").write_text(json.dumps({"results": flat, "bars": bars}, indent=1, default=str))
    print(f"\nwritten: {work / 'report.html'}, {work / 'figures.json'}; {time.monotonic() - began:.0f} s, seed {o.seed}")
    missed = [bar[0] for bar in bars if bar[4] == "missed"]
    if missed:
        print(f"lab-syscalls: missed: {'; '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
