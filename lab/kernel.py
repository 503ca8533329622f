# What experiments ask of the kernel: empty BPF programs, statistics of programs, control groups, load of the machine.
"""Calls of the kernel that the experiments of the guard and of system calls share.

Everything that changes the host is written into an undo file before it happens, and undone at the end of the run or,
after a crash, at the beginning of the next.
"""
import atexit, ctypes, json, os, pathlib, signal, struct, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)
BPF = {"x86_64": 321, "aarch64": 280}.get(os.uname().machine, 321)
TICKS = os.sysconf("SC_CLK_TCK")


def bpf(command, attr):
    buffer = ctypes.create_string_buffer(attr, max(len(attr), 128))
    done = libc.syscall(BPF, command, buffer, len(buffer))
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done, buffer.raw


def empty_program(tracepoint, name="lab_empty"):
    """Attaches a program that does nothing to a tracepoint; it ends when the returned descriptors are closed."""
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, 0, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"Dual MIT/GPL")
    attr = struct.pack("<IIQQIIQII16s", 17, 2, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0, name.encode().ljust(16, b"\0"))
    program, _ = bpf(5, attr)
    text = ctypes.create_string_buffer(tracepoint.encode())
    link, _ = bpf(17, struct.pack("<QI", ctypes.addressof(text), program))
    return program, link


def statistics_on():
    """Counts runs and time of every BPF program, until the returned descriptor is closed."""
    return bpf(32, struct.pack("<I", 0))[0]


def programs():
    """Runs and ns of each loaded program: {(id, name): (runs, ns)}."""
    found, last = {}, 0
    while True:
        try:
            _, out = bpf(11, struct.pack("<II", last, 0))
        except OSError:
            return found
        last = struct.unpack_from("<I", out, 4)[0]
        try:
            fd, _ = bpf(13, struct.pack("<I", last))
        except OSError:
            continue
        info = ctypes.create_string_buffer(256)
        try:
            bpf(15, struct.pack("<IIQ", fd, len(info), ctypes.addressof(info)))
            name = info.raw[64:80].split(b"\0")[0].decode(errors="replace")
            ns, runs = struct.unpack_from("<QQ", info.raw, 192)
            found[(last, name)] = (runs, ns)
        except OSError:
            pass
        finally:
            os.close(fd)


def grown(before, after):
    """What programs did in between, by name: {name: (runs, ns)}."""
    sums = {}
    for key, (runs, ns) in after.items():
        was = before.get(key, (0, 0))
        old = sums.get(key[1], (0, 0))
        sums[key[1]] = (old[0] + runs - was[0], old[1] + ns - was[1])
    return sums


def processor_times():
    """Seconds since boot of all CPUs: busy, idle, steal."""
    v = [int(x) / TICKS for x in open("/proc/stat").readline().split()[1:9]]
    return {"busy": v[0] + v[1] + v[2] + v[5] + v[6], "idle": v[3] + v[4], "steal": v[7]}


class Quiet:
    """What else the machine did while something was measured: percent of all CPU time that was stolen, or was foreign.

    Own are this process, its children that ended in between, and what `more` counts in CPU seconds."""

    def __init__(self, most, more=lambda: 0.0):
        self.most, self.more = most, more
        self.cpu, self.everything, self.own = processor_times(), all_seconds(), self.own_seconds()

    def own_seconds(self):
        return sum(os.times()[:4]) + self.more()

    def disturbed(self):
        """Why what was measured since the begin can't be judged, or None."""
        now = processor_times()
        total = max(sum(now.values()) - sum(self.cpu.values()), 1e-9)
        steal = 100 * (now["steal"] - self.cpu["steal"]) / total
        foreign = 100 * max(0.0, all_seconds() - self.everything - (self.own_seconds() - self.own)) / total
        return f"{steal:.0f} % steal, {foreign:.0f} % foreign" if max(steal, foreign) > self.most else None


def task_seconds(pid):
    """CPU seconds of a process, user and system."""
    try:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
    except (OSError, IndexError):
        return 0.0


def kernel_tasks(*names):
    """{name: pid} of kernel threads whose name begins so."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                name = open(f"/proc/{entry}/comm").read().strip()
            except OSError:
                continue
            if any(name == n or (n.endswith("/") and name.startswith(n)) for n in names):
                found[name] = int(entry)
    return found


class Undo:
    """What was changed on the host and its value before, kept in a file until it is undone."""

    def __init__(self, path):
        self.path, self.entries = pathlib.Path(path), []
        if self.path.exists():
            self.entries = json.loads(self.path.read_text() or "[]")
            print(f"lab: undoing {len(self.entries)} changes of a run that did not end", file=sys.stderr)
            self.all()
        atexit.register(self.all)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(1))

    def remember(self, kind, what, value):
        self.entries.append([kind, what, value])
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.entries))
        with open(self.path) as file:
            os.fsync(file.fileno())

    def write(self, path, value):
        """Writes a file such as a sysctl. Returns why the kernel refused it, or None."""
        try:
            before = open(path).read().strip()
            self.remember("file", str(path), before)
        except OSError as e:
            return e.strerror
        try:
            with open(path, "w") as file:
                file.write(str(value))
            now = open(path).read().strip()
        except OSError as e:
            self.entries.pop()
            return e.strerror
        return None if now.split() == str(value).split() else f"still {now}"

    def nice(self, pid, value):
        self.remember("nice", pid, os.getpriority(os.PRIO_PROCESS, pid))
        os.setpriority(os.PRIO_PROCESS, pid, value)

    def since(self, count):
        """Undoes what came after the first `count` changes."""
        while len(self.entries) > count:
            kind, what, value = self.entries.pop()
            try:
                if kind == "file":
                    with open(what, "w") as file:
                        file.write(value)
                elif kind == "nice":
                    os.setpriority(os.PRIO_PROCESS, what, value)
                elif kind == "namespace":
                    os.system(f"ip netns del {what} 2>/dev/null")
                elif kind == "folder":
                    os.rmdir(what)
            except (OSError, ProcessLookupError) as e:
                print(f"lab: {what}: can't be set back to {value}: {e}", file=sys.stderr)

    def all(self):
        self.since(0)
        self.path.unlink(missing_ok=True)


class Group:
    """A control group of version 2 or 1 with a weight, where 1024 is the usual one; `None` if none can be made."""

    def __init__(self, folder, weight_file, scale, account):
        self.folder, self.weight_file, self.scale, self.account = folder, weight_file, scale, account

    @staticmethod
    def make(name, undo):
        for base, file, scale in (("/sys/fs/cgroup", "cpu.weight", 100 / 1024), ("/sys/fs/cgroup/cpu", "cpu.shares", 1)):
            try:
                control = pathlib.Path(base) / "cgroup.subtree_control"
                if file == "cpu.weight" and control.exists():
                    control.write_text("+cpu")
                folder = folder_of(base, name, undo)
            except OSError:
                continue
            if folder is None or not (folder / file).exists():
                continue
            # Version 1 accounts time in a tree of its own.
            account = folder if scale < 1 or (folder / "cpuacct.usage").exists() else folder_of("/sys/fs/cgroup/cpuacct", name, undo)
            return Group(folder, file, scale, account)
        return None

    def weigh(self, weight):
        most = 10_000 if self.scale < 1 else 262_144
        (self.folder / self.weight_file).write_text(str(max(1, min(most, round(weight * self.scale)))))

    def allow_real_time(self, is_allowed):
        """Kernels with real-time groups refuse SCHED_FIFO in a group without a share of the real time."""
        path = self.folder / "cpu.rt_runtime_us"
        if path.exists():
            try:
                path.write_text("200000" if is_allowed else "0")
            except OSError:
                pass

    def enter(self):
        for folder in {self.folder, self.account} - {None}:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def seconds(self):
        return group_seconds(self.account) if self.account else 0.0


def folder_of(base, name, undo):
    """Makes the folder of a control group; None where it would be an ordinary folder."""
    folder = pathlib.Path(base) / name
    if not folder.is_dir():
        folder.mkdir()
    if not (folder / "cgroup.procs").exists():
        folder.rmdir()
        return None
    undo.remember("folder", str(folder), "")
    return folder


def group_seconds(folder):
    """CPU seconds that the tasks of a control group used."""
    try:
        if (folder / "cpuacct.usage").exists():
            return int((folder / "cpuacct.usage").read_text()) / 1e9
        return int((folder / "cpu.stat").read_text().split()[1]) / 1e6
    except (OSError, IndexError, ValueError):
        return 0.0


def all_seconds():
    """CPU seconds of all tasks of the machine since boot, threads of the kernel included."""
    for base in ("/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup"):
        seconds = group_seconds(pathlib.Path(base))
        if seconds:
            return seconds
    return 0.0


def run_seconds(pid):
    """CPU seconds of a thread, to the nanosecond."""
    try:
        return int(open(f"/proc/{pid}/schedstat").read().split()[0]) / 1e9
    except (OSError, IndexError):
        return 0.0


class MemoryGroup:
    """A control group that bounds memory, version 2 or 1; None if none can be made."""

    def __init__(self, folder, is_v2):
        self.folder, self.is_v2 = folder, is_v2

    @staticmethod
    def make(most):
        name = f"gabion-lab-memory-{os.getpid()}"
        for base, is_v2, limit in ((pathlib.Path("/sys/fs/cgroup"), True, "memory.max"),
                                   (pathlib.Path("/sys/fs/cgroup/memory"), False, "memory.limit_in_bytes")):
            folder = base / name
            try:
                folder.mkdir()
                if not (folder / limit).exists() and is_v2 and (base / "cgroup.subtree_control").exists():
                    (base / "cgroup.subtree_control").write_text("+memory")
                # A folder that is not a cgroup would accept any file, so the file must exist already.
                if not (folder / limit).exists():
                    raise OSError("no memory cgroup")
                (folder / limit).write_text(str(most))
                return MemoryGroup(folder, is_v2)
            except OSError:
                if folder.is_dir():
                    folder.rmdir()
        return None

    def run(self, argv):
        """Runs a program in the cgroup; returns exit code, its output, peak bytes, kills."""
        def enter():
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        done = subprocess.run(argv, capture_output=True, text=True, preexec_fn=enter)
        read = lambda name: (self.folder / name).read_text() if (self.folder / name).exists() else ""
        peak = read("memory.peak" if self.is_v2 else "memory.max_usage_in_bytes").strip() or "0"
        events = read("memory.events" if self.is_v2 else "memory.oom_control")
        kills = next((int(l.split()[1]) for l in events.splitlines() if l.startswith("oom_kill ")), 0)
        return done, int(peak), kills

    def remove(self):
        for _ in range(50):
            try:
                return self.folder.rmdir()
            except OSError:
                time.sleep(0.1)
