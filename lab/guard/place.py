# The place of the guard's experiments: network namespaces of their own, veth pairs, control groups, priorities.
"""Three namespaces: a generator, a router, and what is beyond it. Nothing of it touches the host's own interfaces.

    generator vg 10.0.0.1 ----- vr 10.0.0.2 router vo 10.1.0.1 ----- vp (down) beyond

The victim is CPU 1: RPS of `vr` moves packet work there. The sender is on CPU 0.
"""
import ctypes, fcntl, os, pathlib, re, socket, struct, subprocess, sys, time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from kernel import Group, kernel_tasks, run_seconds

GENERATOR, ROUTER, BEYOND = "gabion-lab-gen", "gabion-lab-router", "gabion-lab-beyond"
SENDER_CPU, VICTIM_CPU = 0, 1
# Weights of the lab's groups and priority of ksoftirqd: what else runs on the machine weighs a fortieth of them.
HEAVY, HEAVY_NICE = 40960, -16


def ip(*arguments, ns=None, check=True):
    argv = ["ip", *(["-n", ns] if ns else []), *map(str, arguments)]
    done = subprocess.run(argv, capture_output=True, text=True)
    if check and done.returncode:
        raise OSError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def sysctl(ns, path, value):
    """Writes a setting inside a namespace. Returns why it was refused, or None."""
    done = subprocess.run(["ip", "netns", "exec", ns, "sh", "-c", f'echo {value} > "$0"', path], capture_output=True, text=True)
    return done.stderr.strip().rsplit(": ", 1)[-1] if done.returncode else None


class Place:
    """The namespaces and groups of one run of the lab."""

    def __init__(self, undo, load):
        self.undo, self.load = undo, load
        for ns in (GENERATOR, ROUTER, BEYOND):
            ip("netns", "del", ns, check=False)
            undo.remember("namespace", ns, "")
            ip("netns", "add", ns)
            ip("link", "set", "lo", "up", ns=ns)
        ip("link", "add", "vg", "netns", GENERATOR, "type", "veth", "peer", "name", "vr", "netns", ROUTER)
        ip("link", "add", "vo", "netns", ROUTER, "type", "veth", "peer", "name", "vp", "netns", BEYOND)
        # A second way into the router: traffic of an interface that nobody throttles.
        ip("link", "add", "wg", "netns", GENERATOR, "type", "veth", "peer", "name", "wr", "netns", ROUTER)
        for ns, names in ((GENERATOR, ("vg", "wg")), (ROUTER, ("vr", "vo", "wr"))):
            for name in names:
                # Without this the kernel's own packets of IPv6 would be counted with the flood.
                sysctl(ns, f"/proc/sys/net/ipv6/conf/{name}/accept_dad", 0)
                sysctl(ns, f"/proc/sys/net/ipv6/conf/{name}/router_solicitations", 0)
                sysctl(ns, f"/proc/sys/net/ipv6/conf/{name}/addr_gen_mode", 1)
                ip("link", "set", name, "multicast", "off", "up", ns=ns)
        self.mac = {}
        for ns, name in ((GENERATOR, "vg"), (ROUTER, "vr"), (GENERATOR, "wg"), (ROUTER, "wr")):
            self.mac[name] = re.search(r"link/ether (\S+)", ip("link", "show", name, ns=ns))[1]
        for ns, name, addresses in ((GENERATOR, "vg", ("10.0.0.1/24", "10.0.9.1/24", "fd00::1/64")), (ROUTER, "vr", ("10.0.0.2/24", "fd00::2/64")),
                                    (ROUTER, "vo", ("10.1.0.1/24",)), (GENERATOR, "wg", ("10.2.0.1/24",)), (ROUTER, "wr", ("10.2.0.2/24",))):
            for address in addresses:
                ip("addr", "add", address, "dev", name, *(["nodad"] if ":" in address else []), ns=ns)
        for ns, name, address, of in ((GENERATOR, "vg", "10.0.0.2", "vr"), (ROUTER, "vr", "10.0.0.1", "vg"), (ROUTER, "vr", "10.0.9.1", "vg"),
                                      (GENERATOR, "vg", "fd00::2", "vr"), (ROUTER, "vr", "fd00::1", "vg"), (GENERATOR, "wg", "10.2.0.2", "wr"),
                                      (ROUTER, "wr", "10.2.0.1", "wg")):
            ip("neigh", "add", address, "lladdr", self.mac[of], "dev", name, "nud", "permanent", ns=ns)
        for name in ("all", "default", "vr", "vo", "wr"):
            sysctl(ROUTER, f"/proc/sys/net/ipv4/conf/{name}/rp_filter", 0)
        sysctl(ROUTER, "/proc/sys/net/ipv4/ip_forward", 1)
        ip("-6", "route", "add", "local", "fd05::/16", "dev", "lo", ns=ROUTER)
        ip("neigh", "add", "10.1.0.2", "lladdr", "02:00:00:00:00:02", "dev", "vo", "nud", "permanent", ns=ROUTER)
        self.steer(True)
        self.is_forwarding = None
        self.forward(False)
        self.groups = {name: Group.make(f"gabion-lab-{name}", undo) for name in ("load", "user", "guard")}
        for group in self.groups.values():
            if group:
                group.weigh(HEAVY)
        self.kernel_tasks = kernel_tasks("ksoftirqd/", "rcu_preempt", "rcu_sched")
        for pid in self.kernel_tasks.values():
            undo.nice(pid, HEAVY_NICE)

    def forward(self, is_forwarding):
        """The flood is forwarded over `vo`, whose other end is down and drops it, or delivered on the router."""
        if is_forwarding == self.is_forwarding:
            return
        self.is_forwarding = is_forwarding
        route = ["via", "10.1.0.2", "dev", "vo", "onlink"] if is_forwarding else ["dev", "lo"]
        ip("route", "flush", "5.0.0.0/8", "table", "all", ns=ROUTER, check=False)
        ip("route", "add", *([] if is_forwarding else ["local"]), "5.0.0.0/8", *route, ns=ROUTER)

    def forward_to_neighbours(self):
        """Every destination is a neighbour of its own, so that the table of neighbours fills."""
        self.is_forwarding = None
        ip("route", "flush", "5.0.0.0/8", "table", "all", ns=ROUTER, check=False)
        ip("link", "set", "vp", "up", ns=BEYOND)
        ip("route", "add", "5.0.0.0/8", "dev", "vo", ns=ROUTER)

    def steer(self, is_on):
        """RPS: packet work of `vr` and `wr` goes to the victim, or stays on the sender's CPU."""
        for name in ("vr", "wr"):
            sysctl(ROUTER, f"/sys/class/net/{name}/queues/rx-0/rps_cpus", f"{1 << VICTIM_CPU if is_on else 0:x}")

    def receive_offload(self, is_on):
        """Gives `vr` a NAPI without XDP, which frames that the kernel makes need: GRO there, and no TSO at the sender."""
        for ns, name, command, value in ((ROUTER, "vr", 0x2c, is_on), (GENERATOR, "vg", 0x1f, not is_on)):
            with in_namespace(ns), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                buffer = ctypes.create_string_buffer(struct.pack("II", command, 1 if value else 0))
                fcntl.ioctl(s, 0x8946, struct.pack("16sP16x", name.encode(), ctypes.addressof(buffer)))

    def start(self, argv, ns=None, group=None, cpu=None, **more):
        """Starts a program in a namespace, a control group and on a CPU."""
        def prepare():
            if group and self.groups.get(group):
                self.groups[group].enter()
            if cpu is not None:
                os.sched_setaffinity(0, {cpu})
        if ns:
            argv = ["ip", "netns", "exec", ns, *argv]
        return subprocess.Popen(list(map(str, argv)), preexec_fn=prepare, text=True, **more)

    def role(self, role, ns=ROUTER, group="load", cpu=SENDER_CPU, **options):
        """Starts a role of load.c."""
        argv = [self.load, role, *(f"{name}={value}" for name, value in options.items())]
        return self.start(argv, ns, group, cpu, stdout=subprocess.PIPE)

    def own_seconds(self):
        """CPU seconds of the lab: its groups, this program, and the kernel's threads that do packet work."""
        groups = sum(group.seconds() for group in self.groups.values() if group)
        return groups + sum(os.times()[:2]) + sum(run_seconds(pid) for pid in self.kernel_tasks.values())


class in_namespace:
    """This process is in another network namespace for a moment."""

    def __init__(self, name):
        self.there = os.open(f"/run/netns/{name}", os.O_RDONLY)
        self.here = os.open("/proc/self/ns/net", os.O_RDONLY)

    def __enter__(self):
        self.move(self.there)

    def __exit__(self, *_):
        self.move(self.here)
        os.close(self.here)
        os.close(self.there)

    @staticmethod
    def move(fd):
        if ctypes.CDLL(None, use_errno=True).setns(fd, 0):
            raise OSError(ctypes.get_errno(), "setns")


def device(ns, name):
    """Counters of an interface: received, dropped on receipt, sent, dropped on sending."""
    text = ip("-s", "link", "show", name, ns=ns)
    numbers = re.findall(r"^\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)", text, re.M)
    return {"rx": int(numbers[0][1]), "rx_dropped": int(numbers[0][3]), "tx": int(numbers[1][1]), "tx_dropped": int(numbers[1][3])}


def wait_for(is_there, seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_there():
            return True
        time.sleep(0.01)
    return False
