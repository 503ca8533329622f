#!/usr/bin/env python3
# Measures live capture between two namespaces: capacity, drops, processor time, and that every frame is accounted for.
"""Measures live capture: a sender and a sensor in namespaces of their own, on a processor each, joined by a veth pair.

Each part fills rows of the table of targets, which is printed at the end with what must be reached, what is aimed at
and a verdict, and written as JSON to target/lab/live.json. With --suricata Suricata is measured in the same run, turn by turn.

Parts:
  capacity  the highest rate without drops, by bisection
  rates     processor seconds (net of loading), drops and peak memory at each rate of --rates
  flat      the sender goes as fast as it can
  equal     live alerts and records are those of a run over the sensor's own packet log, by each number of workers
  offered   sent = received + dropped + lost before the socket, at half, one and two times the capacity
  pinned    twice the capacity: alerts of 100 pinned rules; then half of it: seconds until nothing is shed
  reload    rules loaded at 50 kpps: time, memory, frames lost, and the longest delay of an alert
  reloads   memory after 50 loads, as a ratio to that after 5
  quiet     processor time on a quiet interface; from packet to alert in the file at 50 kpps
  file      the capture from a file: speed, memory by workers, the flood, two workers, instructions
  hour      an hour at 0.6 of the capacity with reloads, rotated logs and a link that goes down (only if named)

A run in which the hypervisor took more than 2 % of a processor is made again, and said. --quick takes a part of the
rules and of the capture and short times: it shows that everything runs, and its figures mean nothing.
"""
import argparse, collections, ctypes, json, os, pathlib, queue, re, shutil, signal, statistics, subprocess, sys, tempfile, threading, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus")).resolve()
SENDER, SENSOR = "gabion-lab-send", "gabion-lab-sense"
PARTS = ["capacity", "rates", "flat", "equal", "offered", "pinned", "reload", "reloads", "quiet", "file"]
# Slots of 1,600 bytes: Suricata derives their size from `default-packet-size`, which it takes from the MTU where it is not set.
RING_SLOTS, BLOCK = 20000, 262144
QUIET_S = 1.5
# How often a run is made that the hypervisor disturbs.
ATTEMPTS = 5
METRICS = "127.0.0.1:9187"
PROBE_SID = 9999999
PROBE_RULE = f'alert udp any any -> any 55555 (msg:"probe"; content:"gabion probe"; sid:{PROBE_SID}; rev:1;)\n'
RECORDS = ["alert", "dns", "http", "tls", "fileinfo", "flow", "smtp", "ssh", "smb", "anomaly"]

CONFIGURATION = """%YAML 1.1
---
vars:
  address-groups:
    HOME_NET: "[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]"
    EXTERNAL_NET: "!$HOME_NET"
    HTTP_SERVERS: "$HOME_NET"
    SMTP_SERVERS: "$HOME_NET"
    SQL_SERVERS: "$HOME_NET"
    DNS_SERVERS: "$HOME_NET"
    TELNET_SERVERS: "$HOME_NET"
    AIM_SERVERS: "$EXTERNAL_NET"
    DC_SERVERS: "$HOME_NET"
    DNP3_SERVER: "$HOME_NET"
    DNP3_CLIENT: "$HOME_NET"
    MODBUS_CLIENT: "$HOME_NET"
    MODBUS_SERVER: "$HOME_NET"
    ENIP_CLIENT: "$HOME_NET"
    ENIP_SERVER: "$HOME_NET"
  port-groups:
    HTTP_PORTS: "80"
    SHELLCODE_PORTS: "!80"
    ORACLE_PORTS: 1521
    SSH_PORTS: 22
    DNP3_PORTS: 20000
    MODBUS_PORTS: 502
    FILE_DATA_PORTS: "[$HTTP_PORTS,110,143]"
    FTP_PORTS: 21
    GENEVE_PORTS: 6081
    VXLAN_PORTS: 4789
    TEREDO_PORTS: 3544
    SIP_PORTS: "[5060, 5061]"
classification-file: CORPUS/rules/classification.config
reference-config-file: CORPUS/rules/reference.config
default-rule-path: /
stats: { enabled: yes, interval: 8 }
outputs:
  - eve-log:
      enabled: EVE
      filetype: regular
      filename: eve.json
      types: [alert, anomaly, http, dns, tls, files, smtp, ssh, smb, flow, stats]
  - pcap-log: { enabled: LOG, filename: log.pcap, limit: 4gb, mode: normal }
logging:
  default-log-level: notice
  outputs:
    - console: { enabled: yes }
unix-command: { enabled: no }
default-packet-size: 1514
af-packet:
  - interface: in
    threads: WORKERS
    cluster-id: 99
    cluster-type: cluster_flow
    defrag: yes
    use-mmap: yes
    tpacket-v3: yes
    ring-size: RINGSLOTS
    block-size: BLOCKBYTES
app-layer:
  protocols:
    tls: { enabled: yes }
    http: { enabled: yes }
    dns: { tcp: { enabled: yes }, udp: { enabled: yes } }
    smtp: { enabled: yes }
    ssh: { enabled: yes }
    smb: { enabled: yes }
    ftp: { enabled: yes }
    nfs: { enabled: yes }
    krb5: { enabled: yes }
    dcerpc: { enabled: yes }
    rdp: { enabled: yes }
    snmp: { enabled: yes }
    sip: { enabled: yes }
    mqtt: { enabled: yes }
    quic: { enabled: yes }
    http2: { enabled: yes }
    pgsql: { enabled: yes }
    ldap: { enabled: yes }
    modbus: { enabled: yes }
    dnp3: { enabled: yes }
    enip: { enabled: yes }
"""


def run(*argv, check=True):
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True)
    if check and done.returncode != 0:
        sys.exit(f"lab-live: {' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done


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
        # Metrics are served inside.
        run("ip", "-n", SENSOR, "link", "set", "lo", "up")
        for space, name in ((SENDER, "out"), (SENSOR, "in")):
            run("ip", "-n", space, "link", "set", name, "arp", "off", "up")
            if shutil.which("ethtool"):
                for feature in ("gro", "tso", "gso", "tx", "rx"):
                    run(*inside(space, "ethtool", "-K", name, feature, "off"), check=False)
        return self

    def __exit__(self, *_):
        for space in (SENDER, SENSOR):
            run("ip", "netns", "del", space, check=False)


def stolen():
    """Processor time that the hypervisor took, and all of it, in ticks."""
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]))
    return fields[7], sum(fields)


def stolen_share(before):
    now = stolen()
    return (now[0] - before[0]) / max(now[1] - before[1], 1) * os.cpu_count()


def cpu_seconds(pid):
    """Processor seconds of all threads so far, to the nanosecond where the scheduler says so."""
    total = 0
    try:
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9
    except (OSError, IndexError, ValueError):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ring_bytes(pid):
    """Bytes of the rings that a program shares with the kernel."""
    ranges = [line.split()[0].split("-") for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines() if "socket:[" in line]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def memory_mib(pid, name):
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(next(l for l in status.splitlines() if l.startswith(name + ":")).split()[1]) / 1024
    except (OSError, StopIteration):
        return 0


def before_socket():
    """Frames that were lost before a socket: by the interface, by queues of processors; and what rx_dropped says, which
    counts frames, too, that reached the socket but that no protocol of the host takes."""
    text = run(*inside(SENSOR, "sh", "-c", "cat /sys/class/net/in/statistics/rx_dropped /sys/class/net/in/statistics/rx_missed_errors; cat /proc/net/softnet_stat")).stdout.split("\n")
    backlog = sum(int(l.split()[1], 16) for l in text[2:] if l)
    return int(text[1]), backlog, int(text[0])


class Quota:
    """A share of a processor that the sensor may use, by a control group."""

    def __init__(self, percent):
        self.percent, self.folder = percent, None
        if percent is None:
            return
        v1 = pathlib.Path("/sys/fs/cgroup/cpu")
        self.folder = (v1 if v1.is_dir() else pathlib.Path("/sys/fs/cgroup")) / "gabion-lab-live"
        self.folder.mkdir(exist_ok=True)
        # Short periods, so that the sensor is slow rather than away.
        if v1.is_dir():
            (self.folder / "cpu.cfs_period_us").write_text("5000")
            (self.folder / "cpu.cfs_quota_us").write_text(str(max(1000, int(5000 * percent / 100))))
        else:
            (self.folder / "cpu.max").write_text(f"{max(1000, int(5000 * percent / 100))} 5000")

    def enter(self, pid):
        if self.folder:
            (self.folder / "cgroup.procs").write_text(str(pid))

    def close(self):
        if self.folder:
            try:
                self.folder.rmdir()
            except OSError:
                pass


def configuration(o, folder, workers, pcap_log=False, eve=True):
    text = CONFIGURATION
    for name, value in {"CORPUS": CORPUS, "EVE": "yes" if eve else "no", "LOG": "yes" if pcap_log else "no", "WORKERS": workers,
                        "RINGSLOTS": RING_SLOTS, "BLOCKBYTES": BLOCK}.items():
        text = text.replace(name, str(value))
    path = pathlib.Path(folder) / "lab.yaml"
    path.write_text(text)
    return path


class Sensor:
    """A program that reads the interface `in`, ready to receive."""

    def __init__(self, o, kind, out, workers=1, more=(), metrics=False, pcap_log=False, rules=None, quota=True):
        self.o, self.kind, self.out = o, kind, pathlib.Path(out)
        yaml = configuration(o, out, workers, pcap_log)
        if kind == "gabion":
            argv, ready = [o.binary, "suricata", *(["--metrics", METRICS] if metrics else [])], "engine started"
        else:
            argv, ready = [o.suricata, "-v"], "Engine started"
        argv += ["--af-packet=in", "--runmode", "single" if workers == 1 and kind == "gabion" else "workers"]
        argv += ["-c", yaml, "-S", rules or o.rules, "-k", "none", "-l", out, *more]
        log = open(self.out / "said", "w")
        self.process = subprocess.Popen(inside(SENSOR, "taskset", "-c", o.sensor_cpus, *argv), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.pid = self.process.pid
        until = time.time() + o.patience
        while ready not in self.text():
            if self.process.poll() is not None or time.time() > until:
                self.process.kill()
                sys.exit(f"lab-live: {kind} does not start:\n{self.text()[-2000:]}")
            time.sleep(0.05)
        if quota:
            o.quota.enter(self.pid)
        time.sleep(0.3)
        self.check_rings(workers)
        self.load = cpu_seconds(self.pid)

    def check_rings(self, workers):
        """Both programs must have the same room for frames that wait, or their drops can't be compared."""
        wanted, found = RING_SLOTS * 1600 * workers, ring_bytes(self.pid)
        if abs(found - wanted) > workers * 2 * BLOCK:
            sys.exit(f"lab-live: {self.kind} has rings of {found:,} bytes where {wanted:,} are asked for")

    def text(self):
        logs = [self.out / "said", self.out / "suricata.log"]
        return "".join(l.read_text(errors="replace") for l in logs if l.exists())

    def cpu(self):
        return cpu_seconds(self.pid) - self.load

    def rss(self):
        return memory_mib(self.pid, "VmRSS")

    def reload(self):
        """Asks for the rules to be loaded again; seconds until they are in use, and the most memory meanwhile."""
        done = re.findall("rule reload complete", self.text())
        began, most = time.time(), self.rss()
        self.process.send_signal(signal.SIGUSR2)
        while len(re.findall("rule reload complete", self.text())) == len(done):
            if "rule reload failed" in self.text() or self.process.poll() is not None or time.time() > began + self.o.patience:
                sys.exit(f"lab-live: {self.kind}: rules are not loaded again:\n{self.text()[-2000:]}")
            most = max(most, self.rss())
            time.sleep(0.005)
        return time.time() - began, most

    def stop(self):
        """Processor seconds net of loading, peak MiB, and the last statistics."""
        cpu, peak = self.cpu(), memory_mib(self.pid, "VmHWM")
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(self.o.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            sys.exit(f"lab-live: {self.kind} does not stop")
        if code != 0:
            print(f"  {self.kind} ended with {code}: {self.text()[-500:]}", flush=True)
        stats = {}
        for name in sorted(self.out.glob("eve*.json*")):
            with open(name, errors="replace") as eve:
                for line in eve:
                    if '"event_type":"stats"' in line:
                        stats = json.loads(line)["stats"]
        capture = stats.get("capture", {})
        return {"cpu": cpu, "peak": peak, "code": code, "offered": capture.get("kernel_packets", 0), "dropped": capture.get("kernel_drops", 0),
                "packets": stats.get("decoder", {}).get("pkts", 0), "alerts": stats.get("detect", {}).get("alert", 0)}


class Tail(threading.Thread):
    """Reads alerts of the probe from eve.json as they come: when each packet came, and how much later its alert."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path, self.seen, self.is_over = path, [], False
        self.start()

    def run(self):
        while not self.path.exists() and not self.is_over:
            time.sleep(0.01)
        rest = b""
        with open(self.path, "rb", buffering=0) as eve:
            eve.seek(0, 2)
            while not self.is_over:
                more = eve.read(1 << 20)
                now = time.time()
                if not more:
                    time.sleep(0.001)
                    continue
                *lines, rest = (rest + more).split(b"\n")
                for line in lines:
                    if f'"signature_id":{PROBE_SID}'.encode() in line:
                        stamp = json.loads(line)["timestamp"]
                        at = time.mktime(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) + float("0." + stamp[20:26])
                        self.seen.append((at, now - at))

    def stop(self):
        self.is_over = True
        self.join()
        return self.seen


class Scraper(threading.Thread):
    """Fetches metrics inside the sensor's namespace, four times a second."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.is_over = [], False
        self.start()

    def run(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with open(f"/run/netns/{SENSOR}") as space:
            if libc.setns(space.fileno(), 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        while not self.is_over:
            try:
                with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=2) as answer:
                    self.samples.append((time.time(), parse_metrics(answer.read().decode())))
            except OSError:
                pass
            time.sleep(0.25)

    def stop(self):
        self.is_over = True
        self.join()
        return self.samples


def parse_metrics(text):
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            found[name] = float(value)
    return found


def shed(metrics):
    """What was left out under pressure, and frames that the kernel dropped."""
    items = sum(v for k, v in metrics.items() if k.startswith("gabion_stage_shed_items_total") and 'reason="pressure_' in k)
    return items + kernel_drops(metrics)


def kernel_drops(metrics):
    return sum(v for k, v in metrics.items() if k.startswith("gabion_kernel_drops_total"))


def sender(o, rate, times=1, capture=None):
    return inside(SENDER, "taskset", "-c", o.sender_cpu, o.work / "send", "out", capture or o.capture, rate, times)


def send(o, rate, times=1):
    return json.loads(run(*sender(o, rate, times)).stdout)


def send_for(o, rate, seconds):
    return send(o, rate, max(1, round(rate * seconds / o.packets)))


def fresh(o):
    return tempfile.mkdtemp(dir=o.work)


def attempt(o, kind, rate, workers=1, times=1, keep=None, **how):
    """One run: the sensor is started, the sender sends, the sensor is stopped once the wire is quiet. The share of a
    processor that the hypervisor took meanwhile is part of the result."""
    out = keep or fresh(o)
    pathlib.Path(out).mkdir(exist_ok=True)
    sensor = Sensor(o, kind, out, workers, **how)
    lost, steal = before_socket(), stolen()
    sent = send(o, rate, times)
    share = stolen_share(steal)
    time.sleep(QUIET_S)
    after = before_socket()
    result = {**sent, **sensor.stop(), "before": after[0] - lost[0], "backlog": after[1] - lost[1], "rx_dropped": after[2] - lost[2], "steal": share}
    if keep is None:
        shutil.rmtree(out, ignore_errors=True)
    return result


def one(o, kind, rate, **how):
    """One run, made again where the hypervisor disturbs it; one whose outputs are kept is not."""
    for _ in range(o.attempts):
        result = attempt(o, kind, rate, **how)
        if result["steal"] <= o.steal or how.get("keep"):
            break
        print(f"  the hypervisor took {result['steal']:.1%} of a processor: the run is made again", flush=True)
    return result


def turn_by_turn(o, rows, kinds, rate, **how):
    """Medians of the runs of each program, which take turns. Where one run is disturbed, all programs run again."""
    results = {kind: [] for kind in kinds}
    for _ in range(o.runs):
        for n in range(o.attempts):
            turn = {kind: attempt(o, kind, rate, **how) for kind in kinds}
            most = max(r["steal"] for r in turn.values())
            if most <= o.steal:
                break
            is_last = n + 1 == o.attempts
            print(f"  the hypervisor took {most:.1%} of a processor: {'these runs count as disturbed' if is_last else 'all programs run again'}", flush=True)
            if is_last:
                rows.disturbed = max(rows.disturbed, most)
        for kind in kinds:
            results[kind].append(turn[kind])
    return {kind: {key: statistics.median(r[key] for r in all_) for key in all_[0]} for kind, all_ in results.items()}


HEAD = "| sensor | rate | kpps | sent | offered | dropped | CPU-s net | peak MiB | alerts |\n|---|---|---|---|---|---|---|---|---|"


def show(kind, rate, r):
    share = r["dropped"] / max(r["offered"], 1)
    kpps = r["sent"] / max(r["seconds"], 1e-9) / 1000
    print(f"| {kind} | {rate} | {kpps:.0f} | {r['sent']:.0f} | {r['offered']:.0f} | {r['dropped']:.0f} ({share:.2%}) | {r['cpu']:.2f} | {r['peak']:.0f} | {r['alerts']:.0f} |", flush=True)


class Rows:
    """The table of targets."""

    def __init__(self):
        self.rows = []
        # The share of a processor that the hypervisor took of a run of the part at hand that could not be made again.
        self.disturbed = 0

    def add(self, what, ours, theirs, must, aim, verdict):
        if self.disturbed:
            verdict += f" (disturbed: {self.disturbed:.1%} of a processor taken)"
        self.rows.append({"what": what, "ours": ours, "suricata": theirs, "must": must, "aim": aim, "verdict": verdict})
        print(f"  → {what}: {ours} (Suricata {theirs}); must {must}, aim {aim}: {verdict}", flush=True)

    def note_disturbed(self, first, share):
        """Says of the rows from this one on that the hypervisor disturbed them."""
        for row in self.rows[first:]:
            row["verdict"] += f" (disturbed: {share:.1%} of a processor taken)"

    def low(self, what, value, text, theirs, must, aim):
        """A row whose value must be small; limits are pairs of number and text."""
        verdict = "not measured" if value is None else "aim met" if value <= aim[0] else "must met" if value <= must[0] else "NOT MET"
        self.add(what, text, theirs, must[1], aim[1], verdict)

    def high(self, what, value, text, theirs, must, aim):
        verdict = "not measured" if value is None else "aim met" if value >= aim[0] else "must met" if value >= must[0] else "NOT MET"
        self.add(what, text, theirs, must[1], aim[1], verdict)

    def print(self):
        print("\n| what | Gabion | Suricata | must | aim | verdict |\n|---|---|---|---|---|---|")
        for r in self.rows:
            print(f"| {r['what']} | {r['ours']} | {r['suricata']} | {r['must']} | {r['aim']} | {r['verdict']} |")

    def is_good(self):
        return not any(r["verdict"].startswith("NOT MET") for r in self.rows)


def capacity(o, kind):
    """The highest rate, in frames a second, at which nothing is dropped."""
    low, high = 0, o.top
    while high - low > o.top / 32:
        rate = (low + high) // 2
        r = one(o, kind, rate, times=max(1, round(rate * o.seconds / o.packets)))
        is_reached = r["sent"] / max(r["seconds"], 1e-9) > rate * 0.97
        print(f"  {kind} {rate / 1000:.0f} kpps: {r['dropped']} dropped of {r['offered']}{'' if is_reached else ' (the sender is slower)'}", flush=True)
        low, high = (rate, high) if r["dropped"] + r["backlog"] == 0 else (low, rate)
    return low


def do_capacity(o, rows):
    o.capacity = {}
    for kind in o.kinds:
        o.capacity[kind] = capacity(o, kind)
        print(f"{kind}: capacity {o.capacity[kind] / 1000:.0f} kpps without drops in {o.seconds:.0f} s", flush=True)


def halve_if_needed(o):
    """The capacity that twice of is sent: where the sender can't, a quota lowers the sensor's."""
    if isinstance(o.capacity, float):
        return int(o.capacity * 1000)
    if not o.capacity:
        do_capacity(o, None)
    top = getattr(o, "sender_top", None)
    if top is None:
        r = one(o, "gabion", 0)
        top = o.sender_top = r["sent"] / max(r["seconds"], 1e-9)
        print(f"the sender reaches {top / 1000:.0f} kpps", flush=True)
    found = o.capacity["gabion"]
    if found * 2.1 > top and o.quota.percent is None:
        percent = max(10, round(100 * top / (found * 2.4)))
        print(f"twice the capacity is more than the sender reaches: the sensor gets {percent} % of a processor", flush=True)
        o.quota = Quota(percent)
        o.capacity["gabion"] = found = capacity(o, "gabion")
        print(f"gabion: capacity {found / 1000:.0f} kpps with that", flush=True)
    return max(found, o.top // 32)


def do_rates(o, rows):
    print(HEAD, flush=True)
    for rate in [int(float(r) * 1000) for r in o.rates.split(",")]:
        found = turn_by_turn(o, rows, o.kinds, rate)
        for kind, r in found.items():
            show(kind, rate, r)
    ours, theirs = found["gabion"], found.get("suricata")
    ratio = ours["cpu"] / theirs["cpu"] if theirs and theirs["cpu"] > 0 else None
    of = f"{theirs['cpu']:.2f} / {theirs['dropped']:.0f}" if theirs else "–"
    text = f"{ours['cpu']:.2f}" + (f" ({ratio:.2f} ×)" if ratio is not None else "") + f" / {ours['dropped']:.0f}"
    value = None if ratio is None else (ratio if ours["dropped"] == 0 else float("inf"))
    rows.low(f"live {rate // 1000} kpps: CPU-s of all threads / drops", value, text, of, (0.4, "0.4 × / 0"), (1 / 3, "a third / 0"))
    rows.low("live peak RSS, MB", ours["peak"] * 1.048576, f"{ours['peak'] * 1.048576:.0f}", f"{theirs['peak'] * 1.048576:.0f}" if theirs else "–", (300, "300"), (220, "220"))


def do_flat(o, rows):
    print(HEAD, flush=True)
    found = turn_by_turn(o, rows, o.kinds, 0)
    for kind, r in found.items():
        show(kind, "flat out", r)
    ours, theirs = found["gabion"], found.get("suricata")
    o.sender_top = ours["sent"] / max(ours["seconds"], 1e-9)
    of = f"{theirs['dropped']:.0f} ({theirs['dropped'] / max(theirs['offered'], 1):.1%})" if theirs else "–"
    value = 0 if ours["dropped"] == 0 else ours["dropped"] / max(theirs["dropped"], 1) if theirs else None
    text = f"{ours['dropped']:.0f} ({ours['dropped'] / max(ours['offered'], 1):.1%})"
    rows.low("live, sender flat out: drops", value, text, of, (1 / 3, "a third of Suricata's"), (0, "0"))


def comparable(path, kinds):
    """Records without numbers that each run gives, and without what says when and why a timer ended a flow on the quiet wire:
    `end`, `age` and `reason` of its own record, and the time of records that were written because of it."""
    records = [json.loads(line) for line in open(path, errors="replace")]
    ends = {r["flow_id"]: r["flow"]["end"] for r in records if r.get("event_type") == "flow"}
    found = collections.Counter()
    for record in records:
        if record.get("event_type") not in kinds:
            continue
        # A record later than its flow's last packet is none of a packet.
        if record["timestamp"] > ends.get(record.get("flow_id"), record["timestamp"]):
            record.pop("timestamp")
        for name in ("flow_id", "parent_id", "pcap_cnt", "in_iface", "pcap_filename"):
            record.pop(name, None)
            record.get("tunnel", {}).pop(name, None)
        if record["event_type"] == "flow":
            record.pop("timestamp", None)
            for name in ("end", "age", "reason"):
                record["flow"].pop(name, None)
        found[json.dumps(record, sort_keys=True)] += 1
    return found


def packet_logs(folder):
    return sorted(pathlib.Path(folder).glob("log.pcap*"), key=lambda p: p.stat().st_mtime_ns)


def read_log(o, logs, out, rules=None):
    """Runs the sensor over packet logs."""
    out.mkdir(exist_ok=True)
    yaml = configuration(o, out, 1)
    files = [part for log in logs for part in ("-r", log)]
    run(o.binary, "suricata", *files, "-c", yaml, "-S", rules or o.rules, "-k", "none", "-l", out)
    return out / "eve.json"


def do_equal(o, rows):
    print("| workers | sent | dropped | live records | file records | only live | only file |\n|---|---|---|---|---|---|---|")
    worst, dropped, texts = 0, 0, []
    for workers in map(int, o.workers.split(",")):
        live, read = o.work / f"live{workers}", o.work / f"file{workers}"
        for folder in (live, read):
            shutil.rmtree(folder, ignore_errors=True)
        r = one(o, "gabion", o.equal_rate, workers=workers, keep=live, pcap_log=True, quota=False)
        a, b = comparable(live / "eve.json", RECORDS), comparable(read_log(o, packet_logs(live), read), RECORDS)
        only_live, only_file = a - b, b - a
        differ = sum(only_live.values()) + sum(only_file.values())
        worst, dropped = max(worst, differ), dropped + r["dropped"]
        texts.append(f"{workers}: {differ} of {sum(b.values())}")
        said = re.findall(r"ledger: (.*)", "".join(p.read_text(errors="replace") for p in live.glob("said")))
        print(f"| {workers} | {r['sent']} | {r['dropped']} | {sum(a.values())} | {sum(b.values())} | {sum(only_live.values())} | {sum(only_file.values())} |", flush=True)
        if differ:
            print(f"    ledger of the live run: {said[-1] if said else '?'}")
        for what, some in (("live", only_live), ("file", only_file)):
            for line in list(some)[:2]:
                print(f"    only {what}: {line[:400]}")
        for folder in (live, read):
            shutil.rmtree(folder, ignore_errors=True)
    verdict = "met" if worst == 0 and dropped == 0 else "NOT MET"
    rows.add(f"live alerts and records = its own `pcap-log` read from file, at {o.equal_rate // 1000} kpps; {o.workers} workers", f"differ: {', '.join(texts)}; {dropped} dropped", "–", "nothing shed; equal", "–", verdict)


def do_offered(o, rows):
    most = halve_if_needed(o)
    print("| share of capacity | sent | received | dropped at the socket | lost before | rest | rx_dropped |\n|---|---|---|---|---|---|---|")
    wrong = 0
    for share in (0.5, 1, 2):
        for _ in range(o.runs):
            r = one(o, "gabion", int(most * share))
            # What the engine says that it decoded, not what the kernel says that is left.
            received = r["packets"]
            rest = r["sent"] - received - r["dropped"] - r["before"] - r["backlog"]
            wrong += rest != 0
            print(f"| {share} | {r['sent']} | {received} | {r['dropped']} | {r['before'] + r['backlog']} | {rest} | {r['rx_dropped']} |", flush=True)
    rows.add("sender's frames = received + `kernel_drop` + lost before the socket, at 0.5, 1, 2 × capacity", f"{wrong} of {3 * o.runs} runs differ", "–", "exact", "exact", "met" if wrong == 0 else "NOT MET")


def alerts_by_rule(path):
    found = collections.Counter()
    for line in open(path, errors="replace"):
        if '"event_type":"alert"' in line:
            found[json.loads(line)["alert"]["signature_id"]] += 1
    return found


def flooded(o, kind, sids, most, more=()):
    """A run at twice the capacity, then at half of it: what of the alerts of these rules it has that a run over the frames that it
    received has, and until when it left something out."""
    out, filed_to = o.work / "pinned", o.work / "pinned-file"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    is_ours = kind == "gabion"
    sensor = Sensor(o, kind, out, metrics=is_ours, pcap_log=True, more=more)
    scraper = Scraper() if is_ours else None
    sent = send_for(o, int(most * 2), o.long_s)
    switched = time.time()
    send_for(o, int(most * 0.5), max(10 if not o.quick else 3, o.seconds))
    ended = time.time()
    samples = scraper.stop() if scraper else []
    r = sensor.stop()
    last = max((b[0] for a, b in zip(samples, samples[1:]) if shed(b[1]) > shed(a[1])), default=0)
    live = alerts_by_rule(out / "eve.json")
    filed = alerts_by_rule(read_log(o, packet_logs(out), filed_to))
    wanted = sum(filed[sid] for sid in sids)
    found = sum(min(live[sid], filed[sid]) for sid in sids)
    for folder in (out, filed_to):
        shutil.rmtree(folder, ignore_errors=True)
    return {"sent": sent["sent"], "kpps": sent["sent"] / sent["seconds"] / 1000, "dropped": r["dropped"], "found": found, "wanted": wanted,
            "share": found / wanted if wanted else None, "shed": shed(samples[-1][1]) if samples else 0,
            "recovered": max(0.0, last - switched), "watched": ended - switched}


def do_pinned(o, rows):
    most = halve_if_needed(o)
    plain = read_log(o, [o.capture], o.work / "plain")
    pinned = [sid for sid, _ in alerts_by_rule(plain).most_common(100)]
    for sid in re.findall(r"^alert .*?\bsid:\s*(\d+)", o.rules.read_text(errors="replace"), re.M):
        if len(pinned) >= 100:
            break
        if int(sid) not in pinned:
            pinned.append(int(sid))
    r = flooded(o, "gabion", pinned, most, ["--set", "pinned-rules=" + ", ".join(map(str, pinned))])
    print(f"  sent {r['sent']} at {r['kpps']:.0f} kpps; {r['dropped']} dropped; shed or dropped {r['shed']:.0f}; pinned alerts {r['found']} of {r['wanted']}; nothing shed {r['recovered']:.1f} s after the rate fell (watched for {r['watched']:.0f} s)", flush=True)
    share, recovered, overloaded = r["share"], r["recovered"], r["shed"]
    theirs = "–"
    if "suricata" in o.kinds:
        # Suricata pins nothing: what of the same rules' alerts is left at that rate.
        other = flooded(o, "suricata", pinned, most)
        theirs = f"{other['share']:.3%}, {other['dropped']} dropped" if other["share"] is not None else "no alert of them"
    what = f"{o.long_s:.0f} s at 2 × capacity: alerts of 100 pinned rules; then 0.5 ×: seconds until nothing is shed"
    value = None if share is None else -share
    rows.low(what + ": alerts", value, f"{share:.3%}" if share is not None else "no alert of them", theirs, (-0.999, "99.9 %"), (-1.0, "100 %"))
    rows.low(what + ": seconds", recovered, f"{recovered:.1f}" + ("" if overloaded else " (nothing was shed)"), "–", (5, "5 s"), (2, "2 s"))


def probe_capture(o):
    """A capture of one datagram that the probe's rule alerts on."""
    payload = b"gabion probe" + bytes(20)
    udp = (40000).to_bytes(2, "big") + (55555).to_bytes(2, "big") + (8 + len(payload)).to_bytes(2, "big") + b"\0\0" + payload
    ip = bytes([0x45, 0]) + (20 + len(udp)).to_bytes(2, "big") + b"\0\1\0\0\x40\x11\0\0" + bytes([10, 9, 8, 7]) + bytes([10, 9, 8, 6])
    total = sum(int.from_bytes(ip[i:i + 2], "big") for i in range(0, 20, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + (0xFFFF ^ total).to_bytes(2, "big") + ip[12:]
    frame = bytes.fromhex("020000000001020000000002") + b"\x08\0" + ip + udp
    path = o.work / "probe.pcap"
    path.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000") + bytes(8) + len(frame).to_bytes(4, "little") * 2 + frame)
    return path


def rules_with_probe(o):
    path = o.work / "probe.rules"
    path.write_bytes(o.rules.read_bytes() + b"\n" + PROBE_RULE.encode())
    return path


def p99(values):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] if ordered else None


class Probed:
    """A sensor under a steady rate with probes, and what came of them."""

    def __init__(self, o, kind, seconds, metrics=False):
        self.o, self.out = o, pathlib.Path(fresh(o))
        self.sensor = Sensor(o, kind, self.out, rules=rules_with_probe(o), metrics=metrics, quota=False)
        self.tail = Tail(self.out / "eve.json")
        time.sleep(0.2)
        load = max(1, round(o.probe_rate * seconds / o.packets))
        self.senders = [subprocess.Popen(sender(o, o.probe_rate, load), stdout=subprocess.PIPE, text=True),
                        subprocess.Popen(sender(o, 200, int(200 * seconds), probe_capture(o)), stdout=subprocess.PIPE, text=True)]

    def end(self):
        for process in self.senders:
            process.wait()
        time.sleep(QUIET_S)
        seen = self.tail.stop()
        result = self.sensor.stop()
        shutil.rmtree(self.out, ignore_errors=True)
        return seen, result

    def stop_sending(self):
        for process in self.senders:
            process.kill()


def reload_once(o, kind):
    probed = Probed(o, kind, o.seconds + (60 if kind == "suricata" else 5), metrics=kind == "gabion")
    scraper = Scraper() if kind == "gabion" else None
    time.sleep(2)
    before = probed.sensor.rss()
    began = time.time()
    took, most = probed.sensor.reload()
    ended = time.time()
    time.sleep(2)
    probed.stop_sending()
    samples = scraper.stop() if scraper else []
    seen, r = probed.end()
    usual = [late for at, late in seen if at < began]
    during = [late for at, late in seen if began - 0.1 <= at <= ended + 1]
    pause = max(during, default=0) - (statistics.median(usual) if usual else 0)
    inner = samples[-1][1].get("gabion_rule_load_pause_longest_microseconds") if samples else None
    return {"took": took, "before": before, "most": most, "dropped": r["dropped"], "pause": pause * 1000, "inner": None if inner is None else inner / 1000}


def do_reload(o, rows):
    all_ = {kind: [reload_once(o, kind) for _ in range(o.runs if kind == "gabion" else 1)] for kind in o.kinds}
    found = {kind: {key: statistics.median(r[key] for r in many) if many[0][key] is not None else None for key in many[0]} for kind, many in all_.items()}
    for kind, r in found.items():
        inner = "" if r["inner"] is None else f"; a worker paused for {r['inner']:.2f} ms"
        print(f"  {kind}: {r['took']:.2f} s; RSS {r['before']:.0f} → {r['most']:.0f} MiB; {r['dropped']:.0f} lost; longest further delay of an alert {r['pause']:.1f} ms{inner}", flush=True)
    ours, theirs = found["gabion"], found.get("suricata")
    what = f"ET reload at {o.probe_rate // 1000} kpps"
    def of(text):
        return text(theirs) if theirs else "–"
    rows.low(what + ": time", ours["took"], f"{ours['took']:.2f} s", of(lambda r: f"{r['took']:.1f} s"), (2, "2 s"), (1, "1 s"))
    ratio = ours["most"] / max(ours["before"], 1)
    rows.low(what + ": RSS", ratio, f"{ours['before']:.0f} → {ours['most']:.0f} MiB ({ratio:.2f} ×)", of(lambda r: f"{r['before']:.0f} → {r['most']:.0f} MiB"), (1.4, "1.4 ×"), (1.25, "1.25 ×"))
    rows.low(what + ": lost", ours["dropped"], f"{ours['dropped']:.0f}", of(lambda r: f"{r['dropped']:.0f}"), (0, "0"), (0, "0"))
    rows.low(what + ": pause (further delay of an alert)", ours["pause"], f"{ours['pause']:.1f} ms", of(lambda r: f"{r['pause']:.1f} ms"), (20, "20 ms"), (5, "5 ms"))


def do_reloads(o, rows):
    out = fresh(o)
    sensor = Sensor(o, "gabion", out, quota=False)
    early, late = (5, 50) if not o.quick else (2, 5)
    sizes = {}
    for n in range(1, late + 1):
        sensor.reload()
        if n in (early, late):
            time.sleep(2)
            sizes[n] = sensor.rss()
    sensor.stop()
    shutil.rmtree(out, ignore_errors=True)
    ratio = sizes[late] / max(sizes[early], 1)
    rows.low(f"RSS after {late} reloads of ET to after {early}", ratio, f"{sizes[early]:.0f} → {sizes[late]:.0f} MiB ({ratio:.3f} ×)", "–", (1.05, "1.05 ×"), (1.05, "–"))


def do_quiet(o, rows):
    idle, late = {}, {}
    for kind in o.kinds:
        out = fresh(o)
        sensor = Sensor(o, kind, out, quota=False)
        time.sleep(2)
        began, cpu = time.time(), cpu_seconds(sensor.pid)
        time.sleep(o.seconds)
        idle[kind] = (cpu_seconds(sensor.pid) - cpu) * 1000 / (time.time() - began)
        sensor.stop()
        shutil.rmtree(out, ignore_errors=True)
        probed = Probed(o, kind, o.seconds)
        seen, _ = probed.end()
        late[kind] = p99([later for _, later in seen])
        print(f"  {kind}: {idle[kind]:.2f} ms of CPU a second on a quiet interface; {len(seen)} probes, p99 {late[kind] if late[kind] is None else late[kind] * 1000:.1f} ms" if late[kind] is not None else f"  {kind}: {idle[kind]:.2f} ms of CPU a second on a quiet interface; no probe was seen", flush=True)
    def of(found, text):
        return text(found["suricata"]) if found.get("suricata") is not None else "–"
    rows.low("quiet interface, CPU a second", idle["gabion"], f"{idle['gabion']:.2f} ms", of(idle, lambda v: f"{v:.1f} ms"), (5, "5 ms"), (2, "2 ms"))
    ours = late["gabion"]
    rows.low(f"packet to alert in the file at {o.probe_rate // 1000} kpps, p99", ours, "–" if ours is None else f"{ours * 1000:.0f} ms", of(late, lambda v: f"{v * 1000:.0f} ms"), (1, "1 s"), (0.1, "100 ms"))


def whole(o, kind, capture, rules=True, workers=1, eve=True):
    """One run over a capture: CPU seconds, wall seconds, peak MiB."""
    out = fresh(o)
    yaml = configuration(o, out, workers, eve=eve)
    argv = [o.binary, "suricata"] if kind == "gabion" else [o.suricata]
    argv += ["-r", capture, "-c", yaml, "-k", "none", "-l", out, *(["-S", o.rules] if rules else ["--disable-detection"])]
    argv += ["--runmode", "single"] if workers == 1 else ["--runmode", "workers", "--set", "threading.set-cpu-affinity=yes", "--set", f"threading.cpu-affinity.worker-cpu-set.threads={workers}"]
    began = time.time()
    process = subprocess.Popen(list(map(str, argv)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    shutil.rmtree(out, ignore_errors=True)
    return {"cpu": usage.ru_utime + usage.ru_stime, "wall": time.time() - began, "peak": usage.ru_maxrss / 1024, "code": process.returncode}


def median_whole(o, kind, *args, **how):
    all_ = [whole(o, kind, *args, **how) for _ in range(o.runs)]
    return {key: statistics.median(r[key] for r in all_) for key in all_[0]}


def first_frames(source, target, most):
    """The first frames of a capture."""
    with open(source, "rb") as old, open(target, "wb") as new:
        new.write(old.read(24))
        for n in range(most):
            head = old.read(16)
            if len(head) < 16:
                return n
            new.write(head + old.read(int.from_bytes(head[8:12], "little")))
    return most


def do_file(o, rows):
    one_frame = o.work / "one.pcap"
    first_frames(o.capture, one_frame, 1)
    speed = {}
    for kind in o.kinds:
        load, none = median_whole(o, kind, one_frame), median_whole(o, kind, one_frame, rules=False)
        with_rules, without = median_whole(o, kind, o.capture), median_whole(o, kind, o.capture, rules=False)
        speed[kind] = [o.packets / max(r["cpu"] - l["cpu"], 1e-6) / 1000 for r, l in ((with_rules, load), (without, none))]
        speed[kind].append(with_rules["peak"])
        print(f"  {kind}: {speed[kind][0]:.0f} k packets a CPU-s with ET + EVE, {speed[kind][1]:.0f} without rules; {with_rules['peak']:.0f} MiB", flush=True)
    for n, what in enumerate(("file: ET + EVE, packets per CPU-s", "file: no rules, EVE, packets per CPU-s")):
        theirs = speed["suricata"][n] if "suricata" in speed else None
        ratio = speed["gabion"][n] / theirs if theirs else None
        rows.high(what, ratio, f"{speed['gabion'][n]:.0f} k" + (f" ({ratio:.2f} ×)" if ratio else ""), f"{theirs:.0f} k" if theirs else "–", (2.8, "2.8 ×"), (4, "4 ×"))
    for workers, must, aim in ((1, 180, 150), (2, 200, 170), (4, 260, 210), (8, 360, 290)):
        peak = median_whole(o, "gabion", o.capture, workers=workers)["peak"]
        theirs = f"{speed['suricata'][2]:.0f}" if "suricata" in speed and workers == 1 else "–"
        rows.low(f"peak RSS ET, {workers} workers, MiB", peak, f"{peak:.0f}", theirs, (must, must), (aim, aim))
    floods = {}
    for kind in o.kinds:
        load = median_whole(o, kind, one_frame, eve=False)["cpu"]
        net = [max(median_whole(o, kind, unpacked(o, f"bench/{name}.pcap.zst"), eve=False)["cpu"] - load, 1e-6) for name in ("mpm-flood", "mpm-plain")]
        floods[kind] = net[0] / net[1]
    rows.low("`mpm-flood` to plain", floods["gabion"], f"{floods['gabion']:.1f}", f"{floods['suricata']:.1f}" if "suricata" in floods else "–", (2.5, "2.5"), (1.8, "1.8"))
    side = []
    for _ in range(o.runs):
        pair = queue.Queue()
        threads = [threading.Thread(target=lambda: pair.put(whole(o, "gabion", o.capture))) for _ in range(2)]
        began = time.time()
        [t.start() for t in threads]
        [t.join() for t in threads]
        side.append((time.time() - began) / 2)
    two = median_whole(o, "gabion", o.capture, workers=2)["wall"]
    share = statistics.median(side) / two
    rows.high("two workers, wall with loading, as a share of two single runs side by side", share, f"{share:.2f}", "–", (0.93, "0.93"), (0.98, "0.98"))
    found = instructions(o)
    rows.low("instructions a packet (first 150,000, net of loading)", found, "–" if found is None else f"{found:,.0f}", "–", (10500, "10,500"), (7000, "7,000"))


def instructions(o):
    """Instructions a packet, counted by valgrind; none without it."""
    if not shutil.which("valgrind") or o.quick:
        return None
    part, one_frame = o.work / "part.pcap", o.work / "one.pcap"
    packets = first_frames(o.capture, part, 150_000)
    counts = []
    for capture in (part, one_frame):
        out = fresh(o)
        yaml = configuration(o, out, 1)
        done = run("valgrind", "--tool=none", "--tool=callgrind", f"--callgrind-out-file={out}/callgrind", o.binary, "suricata", "-r", capture, "-c", yaml, "-S", o.rules, "-k", "none", "-l", out, "--runmode", "single", check=False)
        found = re.search(r"Collected\s*:\s*(\d+)", done.stderr) or re.search(r"refs:\s*([\d,]+)", done.stderr)
        shutil.rmtree(out, ignore_errors=True)
        if not found:
            print(f"  valgrind: {done.stderr[-300:]}", flush=True)
            return None
        counts.append(int(found[1].replace(",", "")))
    return (counts[0] - counts[1]) / packets


def unpacked(o, name):
    target = o.work / pathlib.Path(name).stem
    if not target.exists():
        run("zstd", "-dqf", CORPUS / name, "-o", target)
    return target


def do_hour(o, rows):
    """A long run with reloads, rotated logs and a link that goes down; drops by second as the metrics show them."""
    rate = int(halve_if_needed(o) * 0.6)
    out = pathlib.Path(fresh(o))
    sensor = Sensor(o, "gabion", out, metrics=True, quota=False)
    scraper = Scraper()
    times = max(1, round(rate * o.hour / o.packets))
    process = subprocess.Popen(sender(o, rate, times), stdout=subprocess.PIPE, text=True)
    began = time.time()
    minute, down = (60, 300) if not o.quick else (4, 8)
    moments, sizes, n = [], [], 0
    while process.poll() is None:
        n += 1
        time.sleep(max(0, began + n * minute - time.time()))
        if process.poll() is not None:
            break
        sensor.reload()
        moments.append(time.time())
        (out / "eve.json").rename(out / "eve.json.old")
        sensor.process.send_signal(signal.SIGHUP)
        moments.append(time.time())
        if (n * minute) % down == 0:
            run("ip", "-n", SENSOR, "link", "set", "in", "down")
            time.sleep(2)
            run("ip", "-n", SENSOR, "link", "set", "in", "up")
            moments.append(time.time())
        sizes.append((time.time() - began, sensor.rss()))
    sent = json.loads(process.stdout.read() or "{}")
    samples = scraper.stop()
    r = sensor.stop()
    shutil.rmtree(out, ignore_errors=True)
    near = 0
    for a, b in zip(samples, samples[1:]):
        more = kernel_drops(b[1]) - kernel_drops(a[1])
        # A sample shows what happened up to a second and a bit before it.
        if more > 0 and any(at <= b[0] <= at + 3 + 1.3 for at in moments):
            near += more
    share = (r["dropped"] - near) / max(r["offered"], 1)
    def mean(low, high):
        some = [size for at, size in sizes if low * o.hour <= at < high * o.hour]
        return statistics.mean(some) if some else None
    first, last = mean(1 / 6, 2 / 6), mean(5 / 6, 2)
    growth = last / first - 1 if first and last else None
    print(f"  {sent.get('sent')} sent; {r['dropped']} dropped, {near:.0f} of them within 3 s of a reload, rotation or the link's return; RSS {first and round(first)} → {last and round(last)} MiB", flush=True)
    what = f"{o.hour / 3600:.2g} h at 0.6 × capacity"
    rows.low(what + ": drops in the 3 s from a reload, rotation or link's return", near, f"{near:.0f}", "–", (0, "0"), (0, "none"))
    rows.low(what + ": all other drops", share, f"{r['dropped'] - near:.0f} ({share:.1e})", "–", (1e-5, "below 10⁻⁵"), (0, "none"))
    rows.low(what + ": RSS of the last sixth to the second", growth, "–" if growth is None else f"{growth:+.1%}", "–", (0.03, "within 3 %"), (0.03, "–"))


def main():
    p = argparse.ArgumentParser(prog="lab/live/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--binary", default=os.environ.get("GABION", ROOT / "target/release/gabion"), help="the program [GABION, else target/release/gabion]")
    p.add_argument("--suricata", help="a Suricata to compare with")
    p.add_argument("--rules", type=pathlib.Path, help="rules [the corpus' ET rules]")
    p.add_argument("--runs", type=int, default=3)
    p.add_argument("--rates", default="250", help="kpps of the part `rates`; the last one counts [250]")
    p.add_argument("--equal-rate", type=int, default=100_000, help="frames a second of the part `equal`")
    p.add_argument("--probe-rate", type=int, default=50_000, help="frames a second of `reload` and `quiet`")
    p.add_argument("--seconds", type=float, default=10)
    p.add_argument("--long", dest="long_s", type=float, default=60, help="seconds of `pinned` at twice the capacity")
    p.add_argument("--hour", type=float, default=3600, help="seconds of the part `hour`")
    p.add_argument("--top", type=int, default=520_000, help="frames a second from which the capacity is looked for")
    p.add_argument("--workers", default="1,2,4", help="numbers of workers of the part `equal`")
    p.add_argument("--part", default=",".join(PARTS), help="parts to run, with commas [all but hour]")
    p.add_argument("--capacity", type=float, help="kpps that an earlier run found for the sensor; else it is looked for where a part needs it")
    p.add_argument("--attempts", type=int, default=ATTEMPTS, help=f"how often a run is made that the hypervisor disturbs [{ATTEMPTS}]")
    p.add_argument("--quota", type=float, help="percent of a processor that the sensor gets [all, less where the sender can't reach twice the capacity]")
    p.add_argument("--sender-cpu", default="0")
    p.add_argument("--sensor-cpus", default="1")
    p.add_argument("--json", type=pathlib.Path, default=ROOT / "target/lab/live.json")
    p.add_argument("--quick", action="store_true", help="small and short: only shows that everything runs")
    o = p.parse_args()
    if os.geteuid() != 0:
        sys.exit("lab-live: needs root")
    unknown = set(o.part.split(",")) - set(PARTS) - {"hour"}
    if unknown:
        sys.exit(f"lab-live: --part {','.join(unknown)}: parts are {', '.join(PARTS)}, hour")
    if not (CORPUS / "bench/mixed.pcap.zst").exists():
        print(f"lab-live: skipped: no corpus at {CORPUS} (set GABION_CORPUS)")
        return 0
    o.patience = 600
    # A busy machine that only checks the lab has no quiet minute.
    o.steal = 0.02 if not o.quick else 1
    if o.quick:
        o.runs, o.rates, o.equal_rate, o.probe_rate, o.seconds = 1, "5", 5_000, 2_000, 2
        o.top, o.long_s, o.hour = 64_000, 5, 26
    o.kinds = ["gabion"] + (["suricata"] if o.suricata else [])
    o.quota = Quota(o.quota)
    began = time.time()
    rows = Rows()
    scratch = ROOT / "target/lab"
    scratch.mkdir(parents=True, exist_ok=True)
    o.work = pathlib.Path(tempfile.mkdtemp(prefix="gabion-live-", dir=scratch))
    try:
        run("cc", "-O2", "-o", o.work / "send", ROOT / "lab/live/send.c")
        mixed = unpacked(o, "bench/mixed.pcap.zst")
        o.capture = mixed
        if o.quick:
            o.capture = o.work / "quick.pcap"
        o.packets = first_frames(mixed, o.capture, 20_000) if o.quick else 1_166_893
        if o.rules is None:
            o.rules = unpacked(o, "rules/emerging-all.rules.zst")
            if o.quick:
                lines = o.rules.read_bytes().splitlines(keepends=True)
                (o.work / "quick.rules").write_bytes(b"".join(lines[::20]))
                o.rules = o.work / "quick.rules"
        o.rules = o.rules.resolve()
        with Wire():
            for part in [part for part in [*PARTS, "hour"] if part in o.part.split(",")]:
                at = time.time()
                print(f"== {part}", flush=True)
                rows.disturbed, known, steal = 0, len(rows.rows), stolen()
                globals()[f"do_{part}"](o, rows)
                share = stolen_share(steal)
                # These parts do not make single runs again.
                if part not in ("capacity", "rates", "flat", "offered") and share > o.steal:
                    rows.note_disturbed(known, share)
                print(f"== {part}: {time.time() - at:.0f} s", flush=True)
    finally:
        o.quota.close()
        shutil.rmtree(o.work, ignore_errors=True)
    if "hour" not in o.part.split(","):
        rows.add("one hour at 0.6 × capacity, with reloads, rotated logs and a link that goes down", "–", "–", "no drop near these; others below 10⁻⁵; RSS within 3 %", "none", "not measured: --part hour")
    rows.print()
    o.json.parent.mkdir(parents=True, exist_ok=True)
    o.json.write_text(json.dumps({"seconds": round(time.time() - began), "quick": o.quick, "runs": o.runs, "rows": rows.rows}, indent=1) + "\n")
    print(f"\n{time.time() - began:.0f} s; {o.json}")
    if o.quick:
        print("--quick: everything ran; the figures mean nothing")
        return 0
    return 0 if rows.is_good() else 1


if __name__ == "__main__":
    sys.exit(main())
