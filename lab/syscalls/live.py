# Live rules in the benchmark: what is shed with Falco's rules, and the time from a call to its alert; and a storm.
"""`gabion falco` reads the calls of step 3 while redis-benchmark runs. What this program can't do is skipped by name."""
import os, pathlib, re, signal, statistics, subprocess, threading, time

import forbidden
from kernel import Quiet

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus"))
RULES = ("falco_rules.yaml", "falco-incubating_rules.yaml", "falco-sandbox_rules.yaml")
CONFIG = """
stdout_output: {{enabled: true}}
syslog_output: {{enabled: false}}
webserver: {{enabled: false}}
watch_config_files: false
json_output: {json}
rule_matching: all
base_syscalls: {{all: {all}, custom_set: [{calls}]}}
"""
FOREIGN_MOST, TRIES = 10.0, 3
CANARY = """
- rule: Canary
  desc: A file of the lab was opened.
  condition: evt.type in (open, openat) and fd.name contains canary-
  output: canary %fd.name
  priority: WARNING
"""
# The fifteen calls of step 3, and the one that the canary of the latency makes. With `all`, or reads and writes would be left out.
STEP_3 = ("read,write,close,fcntl,gettimeofday,epoll_ctl,epoll_wait,clock_gettime,clock_nanosleep,socket,connect,sendto,recvfrom,setsockopt,"
          "accept4,openat")
EVERY_RULE = ("-o", "rules[].enable.rule=*")


class Falco:
    """`gabion falco` live, with rule files and a configuration."""

    def __init__(self, o, work, rules, json=False, calls=STEP_3, more=()):
        config = work / "falco.yaml"
        config.write_text(CONFIG.format(json="true" if json else "false", calls=calls, all="true" if calls else "false"))
        argv = [o.binary, "falco", "-c", config, *more, *(part for rule in rules for part in ("-r", rule))]
        self.errors = open(work / "falco.err", "w+")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        for _ in range(1200):
            if self.process.poll() is not None or "Opened" in self.said():
                break
            time.sleep(0.05)
        time.sleep(0.5)
        if self.process.poll() is not None:
            raise OSError(self.said().strip().splitlines()[-1] if self.said().strip() else f"exit {self.process.returncode}")

    def read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic_ns(), line))

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def memory_mib(self):
        try:
            return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{self.process.pid}/status").read())[1]) / 1024
        except (OSError, TypeError):
            return 0.0

    def end(self):
        self.process.send_signal(signal.SIGINT)
        try:
            _, status, usage = os.wait4(self.process.pid, 0)
            self.process.returncode = os.waitstatus_to_exitcode(status)
            seconds = usage.ru_utime + usage.ru_stime
        except ChildProcessError:
            seconds = 0.0
        self.reader.join(5)
        return seconds


def rule_files():
    folder = CORPUS / "falco-rules"
    return [folder / name for name in RULES if (folder / name).exists()]


def drops(text):
    """What a run reports as dropped or shed; None where it reports nothing of the kind."""
    found = [int(n.replace(",", "")) for n in re.findall(r"(?:event drop detected:|shed|dropped:?) ([\d,]+)", text)]
    found += [int(n.replace(",", "")) for n in re.findall(r"([\d,]+) shed", text)]
    return max(found) if found else None


def measure(o, work, redis, benchmark):
    """{row: figures} of live rules in step 3."""
    result, files = {}, rule_files()
    cases = [("stable rules", files[:1], ()), ("all rules", files, EVERY_RULE)] if files else []
    for name, rules, more in cases:
        try:
            for _ in range(TRIES):
                falco = Falco(o, work, rules, more=more)
                quiet = Quiet(FOREIGN_MOST, redis.seconds)
                began = time.monotonic()
                rate = benchmark(o.requests)
                seconds = time.monotonic() - began
                cpu = falco.end()
                why = quiet.disturbed()
                if not why:
                    break
        except OSError as e:
            print(f"live, {name}: skipped: {e}")
            result[name] = {"skipped": str(e)}
            continue
        text = "".join(line for _, line in falco.lines) + falco.said()
        received = re.search(r"system calls: ([\d,]+) received", text)
        events = int(received[1].replace(",", "")) / seconds if received else None
        result[name] = {"requests_s": rate["requests_s"], "cpu": cpu, "events_s": events, "shed": drops(text), "exit": falco.process.returncode, "end": text[-600:],
                        **({"not_judged": why} if why else {})}
        print(f"  live, {name}: {rate['requests_s']:.0f} requests/s, {(events or 0) / 1000:.0f} k events/s, reader {cpu:.2f} s, shed {result[name]['shed']}, exit {falco.process.returncode}", flush=True)
    result["latency"] = latency(o, work, redis, benchmark)
    result["forbidden"] = broken(o, work, files)
    return result


def broken(o, work, files):
    """What the shipped rules forbid is done while they are live."""
    try:
        found = forbidden.play(Falco(o, work, files, json=True, calls=""), work)
    except OSError as e:
        found = {"skipped": str(e)}
    if found.get("skipped"):
        print(f"rules broken on purpose: skipped: {found['skipped']}")
    else:
        print(f"  rules broken on purpose: {found['found']} of {found['of']} found with process, parent and file {found['missing'] or ''}", flush=True)
    return found


def latency(o, work, redis, benchmark):
    """From a call to its alert, as read from the program's output, while step 3 runs; repeated where too much else ran."""
    for _ in range(TRIES):
        quiet = Quiet(FOREIGN_MOST, redis.seconds)
        found = one_latency(o, work, benchmark)
        why = quiet.disturbed()
        if not why or found.get("skipped"):
            return found
    return {**found, "not_judged": why}


def one_latency(o, work, benchmark):
    rules = work / "canary.yaml"
    rules.write_text(CANARY)
    try:
        falco = Falco(o, work, [rules])
    except OSError as e:
        print(f"call to alert: skipped: {e}")
        return {"skipped": str(e)}
    seconds = 3 if o.quick else 10
    canaries = subprocess.Popen([work / "calls", "files", str(seconds), str(work)], stdout=subprocess.PIPE, text=True)
    load = threading.Thread(target=benchmark, args=(o.requests,), daemon=True)
    load.start()
    opened = {int(n): int(at) for n, at in (line.split() for line in canaries.communicate()[0].splitlines())}
    load.join()
    time.sleep(0.5)
    falco.end()
    seen = {}
    for at, line in falco.lines:
        found = re.search(r"canary-(\d+)", line)
        if found:
            seen.setdefault(int(found[1]), at)
    late = sorted((seen[n] - at) / 1e6 for n, at in opened.items() if n in seen)
    if not late:
        return {"skipped": f"no alert of {len(opened)}: {falco.said()[-200:]}"}
    result = {"p50_ms": statistics.median(late), "p99_ms": late[int(len(late) * 0.99)], "most_ms": late[-1], "alerts": len(late), "opened": len(opened)}
    print(f"  call to alert: p50 {result['p50_ms']:.1f} ms, p99 {result['p99_ms']:.1f} ms, {len(late)} of {len(opened)} alerts", flush=True)
    return result


def storm(o, work):
    """Processes that begin and end as fast as they can, some in control groups named as containers: memory by minute."""
    try:
        falco = Falco(o, work, rule_files())
    except OSError as e:
        print(f"storm: skipped: {e}")
        return {"skipped": str(e)}
    seconds = max(int(o.storm * 60), 10)
    base = next((pathlib.Path(p) for p in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.isdir(p)), None)
    made, running = [], []
    for n in range(2):
        folder = base / f"docker-{n:064x}.scope"
        try:
            folder.mkdir(exist_ok=True)
            made.append(folder)
        except OSError:
            folder = None

        def enter(folder=folder):
            if folder:
                (folder / "cgroup.procs").write_text(str(os.getpid()))
        running.append(subprocess.Popen([work / "calls", "storm", str(seconds)], stdout=subprocess.PIPE, text=True, preexec_fn=enter))
    samples, began = [], time.monotonic()
    while any(r.poll() is None for r in running):
        time.sleep(1)
        samples.append((time.monotonic() - began, falco.memory_mib()))
    count = sum(int(r.communicate()[0] or 0) for r in running)
    falco.end()
    for folder in made:
        folder.rmdir()
    after = min(60, seconds / 4)
    base_mib = next((mib for at, mib in samples if at >= after), samples[-1][1])
    later = [mib for at, mib in samples if at >= after]
    result = {"processes": count, "first_minute_mib": base_mib, "most_mib": max(later), "samples": samples, "exit": falco.process.returncode}
    print(f"storm: {count} processes in {seconds} s: {base_mib:.1f} MiB after {after:.0f} s, at most {max(later):.1f} after it, exit {falco.process.returncode}", flush=True)
    return result
