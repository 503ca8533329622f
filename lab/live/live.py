#!/usr/bin/env python3
# Measures live capture between two namespaces: capacity, drops, processor time, and that every frame is accounted for.
"""Measures live capture: a sender and a sensor in namespaces of their own, on a processor each, joined by a veth pair.

  lab/live/run.sh [--binary PATH] [--suricata PATH --suricata-config YAML] [--runs N] [--rates KPPS,...] [--seconds S]
                  [--workers 1,2] [--part capacity,rates,flat,equal,offered]

Parts: `capacity` finds the highest rate without drops; `rates` prints processor seconds (net of loading) and drops at
each rate; `flat` lets the sender go as fast as it can; `equal` compares live alerts and records with those of a run
over a log of the same frames; `offered` checks sent = received + dropped + lost before the socket at half, one and two
times the capacity. A run in which the hypervisor took more than 2 % of a processor is made again, and said.
"""
import argparse, collections, json, os, pathlib, shutil, signal, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus"))
PACKETS = 1166893
SENDER, SENSOR = "gabion-lab-send", "gabion-lab-sense"
# Suricata's slots of 1,600 bytes; both get the same bytes.
RING_SLOTS, BLOCK = 20000, 262144
QUIET_S = 1.5


def run(*argv, check=True):
    return subprocess.run(list(map(str, argv)), check=check, capture_output=True, text=True)


def inside(space, *argv):
    return ["ip", "netns", "exec", space, *map(str, argv)]


class Wire:
    """Two namespaces with a link; nothing but the sender's frames crosses it."""

    def __enter__(self):
        self.__exit__()
        for space in (SENDER, SENSOR):
            run("ip", "netns", "add", space)
            run(*inside(space, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"))
        run("ip", "-n", SENDER, "link", "add", "out", "mtu", 65535, "type", "veth", "peer", "name", "in", "mtu", 65535, "netns", SENSOR)
        for space, name in ((SENDER, "out"), (SENSOR, "in")):
            run("ip", "-n", space, "link", "set", name, "arp", "off", "up")
            run(*inside(space, "ethtool", "-K", name, "gro", "off", "tso", "off", "gso", "off", "tx", "off", "rx", "off"), check=False) if shutil.which("ethtool") else None
        return self

    def __exit__(self, *_):
        for space in (SENDER, SENSOR):
            run("ip", "netns", "del", space, check=False)


def stolen():
    """Processor time that the hypervisor took, and all of it, in ticks."""
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    return fields[7], sum(fields)


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(l for l in status.splitlines() if l.startswith("VmHWM")).split()[1]) / 1024


def before_socket():
    """Frames that were lost before a socket: by the interface, and by queues of processors."""
    text = run(*inside(SENSOR, "sh", "-c", "cat /sys/class/net/in/statistics/rx_dropped /sys/class/net/in/statistics/rx_missed_errors; cat /proc/net/softnet_stat")).stdout.split("\n")
    backlog = sum(int(l.split()[1], 16) for l in text[2:] if l)
    return int(text[0]) + int(text[1]), backlog


class Sensor:
    def __init__(self, o, kind, out, workers=1, more=()):
        self.kind, self.out = kind, pathlib.Path(out)
        if kind == "gabion":
            argv = [o.binary, "suricata"]
            ready = "engine started"
            argv += ["--af-packet=in", "--runmode", "single" if workers == 1 else "workers"]
            argv += ["--set", "threading.set-cpu-affinity=yes", "--set", f"threading.cpu-affinity.worker-cpu-set.threads={workers}"]
        else:
            argv = [o.suricata]
            ready = "Engine started"
            argv += ["--af-packet=in", "--runmode", "workers", "-vv"]
        if o.suricata_config:
            argv += ["-c", o.suricata_config]
        sets = {"interface": "in", "threads": workers, "ring-size": RING_SLOTS, "block-size": BLOCK, "tpacket-v3": "yes", "use-mmap": "yes"}
        for key, value in sets.items():
            argv += ["--set", f"af-packet.0.{key}={value}"]
        argv += ["-S", o.rules, "-k", "none", "-l", out, *more]
        cores = o.sensor_cpus
        log = open(self.out / "said", "w")
        self.process = subprocess.Popen(inside(SENSOR, "taskset", "-c", cores, *argv), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        until = time.time() + 300
        while ready not in self.text():
            if self.process.poll() is not None or time.time() > until:
                sys.exit(f"{kind} does not start:\n{self.text()[-2000:]}")
            time.sleep(0.05)
        time.sleep(0.3)
        self.load = cpu_seconds(self.pid)

    def text(self):
        logs = [self.out / "said", self.out / "suricata.log"]
        return "".join(l.read_text(errors="replace") for l in logs if l.exists())

    def stop(self):
        """Processor seconds net of loading, peak MiB, and the last statistics."""
        cpu, peak = cpu_seconds(self.pid) - self.load, peak_mib(self.pid)
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(120)
        stats = {}
        with open(self.out / "eve.json", errors="replace") as eve:
            for line in eve:
                if '"event_type":"stats"' in line:
                    stats = json.loads(line)["stats"]
        capture = stats.get("capture", {})
        return {"cpu": cpu, "peak": peak, "code": code, "offered": capture.get("kernel_packets", 0), "dropped": capture.get("kernel_drops", 0),
                "packets": stats.get("decoder", {}).get("pkts", 0), "alerts": stats.get("detect", {}).get("alert", 0)}


def send(o, rate, times=1):
    done = run(*inside(SENDER, "taskset", "-c", o.sender_cpu, o.work / "send", "out", o.capture, rate, times))
    return json.loads(done.stdout)


def one(o, kind, rate, workers=1, times=1, more=(), keep=None):
    """One run: the sensor is started, the sender sends, the sensor is stopped once the wire is quiet."""
    while True:
        out = keep or tempfile.mkdtemp(dir=o.work)
        pathlib.Path(out).mkdir(exist_ok=True)
        sensor = Sensor(o, kind, out, workers, more)
        lost, steal = before_socket(), stolen()
        sent = send(o, rate, times)
        took = stolen()
        time.sleep(QUIET_S)
        after = before_socket()
        result = {**sent, **sensor.stop(), "before": after[0] - lost[0], "backlog": after[1] - lost[1]}
        if keep is None:
            shutil.rmtree(out, ignore_errors=True)
        share = (took[0] - steal[0]) / max(took[1] - steal[1], 1) * os.cpu_count()
        if share <= 0.02 or keep:
            return result
        print(f"  the hypervisor took {share:.1%} of a processor: the run is made again", flush=True)


def median(o, kind, rate, **how):
    results = [one(o, kind, rate, **how) for _ in range(o.runs)]
    return {key: statistics.median(r[key] for r in results) for key in results[0]}


def show(kind, rate, r):
    share = r["dropped"] / max(r["offered"], 1)
    kpps = r["sent"] / max(r["seconds"], 1e-9) / 1000
    print(f"| {kind} | {rate} | {kpps:.0f} | {r['sent']:.0f} | {r['offered']:.0f} | {r['dropped']:.0f} ({share:.2%}) | {r['cpu']:.2f} | {r['peak']:.0f} | {r['alerts']:.0f} |", flush=True)


HEAD = "| sensor | rate | kpps | sent | offered | dropped | CPU-s net | peak MiB | alerts |\n|---|---|---|---|---|---|---|---|---|"


def capacity(o, kind):
    """The highest rate, in frames a second, at which nothing is dropped."""
    low, high = 0, o.top
    while high - low > o.top / 32:
        rate = (low + high) // 2
        r = one(o, kind, rate, times=max(1, round(rate * o.seconds / PACKETS)))
        low, high = (rate, high) if r["dropped"] == 0 else (low, rate)
    return low


def comparable(path, kinds):
    """Records without what differs by nature: times, numbers, and how a flow ended on the quiet wire."""
    found = collections.Counter()
    for line in open(path, errors="replace"):
        record = json.loads(line)
        if record.get("event_type") not in kinds:
            continue
        for name in ("timestamp", "flow_id", "parent_id", "pcap_cnt", "in_iface", "pcap_filename"):
            record.pop(name, None)
        for name in ("start", "end", "age", "reason", "state"):
            record.get("flow", {}).pop(name, None)
        found[json.dumps(record, sort_keys=True)] += 1
    return found


def equal(o, workers):
    """Live records are those of a run over the log of the same frames."""
    live, read = o.work / f"live{workers}", o.work / f"file{workers}"
    for folder in (live, read):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    log = ["--set", "outputs.pcap-log.enabled=yes"] if workers == 1 else []
    r = one(o, "gabion", 100_000, workers=workers, more=log, keep=live)
    run(o.binary, "suricata", "-r", o.capture, "-S", o.rules, "-k", "none", "-l", read, *(["-c", o.suricata_config] if o.suricata_config else []))
    kinds = {"alert", "dns", "http", "tls", "fileinfo", "flow", "smtp", "ssh", "smb", "anomaly"}
    a, b = comparable(live / "eve.json", kinds), comparable(read / "eve.json", kinds)
    only_live, only_file = a - b, b - a
    print(f"| {workers} | {r['sent']} | {r['dropped']} | {sum(a.values())} | {sum(b.values())} | {sum(only_live.values())} | {sum(only_file.values())} |", flush=True)
    for what, some in (("live", only_live), ("file", only_file)):
        for line in list(some)[:2]:
            print(f"    only {what}: {line[:300]}")
    return not only_live and not only_file


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default=os.environ.get("GABION", ROOT / "target/release/gabion"))
    p.add_argument("--suricata", "--peer")
    p.add_argument("--suricata-config", "--peer-config")
    p.add_argument("--rules", type=pathlib.Path)
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--rates", default="100,250")
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--top", type=int, default=520_000)
    p.add_argument("--workers", default="1,2")
    p.add_argument("--part", default="capacity,rates,flat,equal,offered")
    p.add_argument("--sender-cpu", default="0")
    p.add_argument("--sensor-cpus", default="1")
    o = p.parse_args()
    if os.geteuid() != 0:
        sys.exit("lab-live: needs root")
    o.work = pathlib.Path(tempfile.mkdtemp(prefix="gabion-live-"))
    try:
        run("cc", "-O2", "-o", o.work / "send", ROOT / "lab/live/send.c")
        o.capture = o.work / "mixed.pcap"
        run("zstd", "-dqf", CORPUS / "bench/mixed.pcap.zst", "-o", o.capture)
        if o.rules is None:
            o.rules = o.work / "et.rules"
            run("zstd", "-dqf", CORPUS / "rules/emerging-all.rules.zst", "-o", o.rules)
        with Wire():
            return parts(o)
    finally:
        shutil.rmtree(o.work, ignore_errors=True)


def parts(o):
    wanted, is_good = o.part.split(","), True
    kinds = ["gabion"] + (["suricata"] if o.suricata else [])
    most = 250_000
    if "capacity" in wanted:
        for kind in kinds:
            found = capacity(o, kind)
            print(f"{kind}: capacity {found / 1000:.0f} kpps without drops in {o.seconds:.0f} s", flush=True)
            most = found if kind == "gabion" and found else most
    if "rates" in wanted or "flat" in wanted:
        print(HEAD, flush=True)
    for rate in [int(float(r) * 1000) for r in o.rates.split(",")] if "rates" in wanted else []:
        for kind in kinds:
            show(kind, rate, median(o, kind, rate))
    if "flat" in wanted:
        for kind in kinds:
            show(kind, "flat out", median(o, kind, 0))
    if "equal" in wanted:
        print("| workers | sent | dropped | live records | file records | only live | only file |\n|---|---|---|---|---|---|---|")
        for workers in map(int, o.workers.split(",")):
            is_good &= equal(o, workers)
    if "offered" in wanted:
        print("| share of capacity | sent | received | dropped at the socket | lost before | rest |\n|---|---|---|---|---|---|")
        for share in (0.5, 1, 2):
            for _ in range(o.runs):
                r = one(o, "gabion", int(most * share))
                received = r["offered"] - r["dropped"]
                rest = r["sent"] - r["offered"] - r["before"] - r["backlog"]
                is_good &= rest == 0
                print(f"| {share} | {r['sent']} | {received} | {r['dropped']} | {r['before'] + r['backlog']} | {rest} |", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
