# The cases of the guard's lab, by experiment.
"""What each experiment runs, and how often. A setting that the kernel refuses is a result and not a fault."""
import os, time

from kernel import kernel_tasks
from place import GENERATOR, HEAVY, HEAVY_NICE, ROUTER, SENDER_CPU, VICTIM_CPU, ip, sysctl
from run import Case

PKTGEN = {"flows": 32768, "length": 10}
BURST = {**PKTGEN, "on": 100, "off": 100}
# Flows that the guard has seen before the flood.
OLD = {"flows": 2000, "length": 0, "slow_ms": 500, "slow_rate": 20_000}
NET = "/proc/sys/net/core/"


def thread():
    """The thread of 2004: a flood that is forwarded, at three weights of the user's program, without and with the guard."""
    yield Case("calm", is_forwarded=True)
    for weight in (1, 5, 60):
        yield Case(f"flood, weight 1:{weight}", flood=PKTGEN, weight=weight, is_forwarded=True)
        yield Case(f"flood, weight 1:{weight}, guard", "native", PKTGEN, weight, is_forwarded=True)


def throttle_rcu(place):
    """Its heir today: the callbacks of a pass, which only the boot line sets."""
    return Case("throttle-rcu (rcutree.blimit 4)", flood=PKTGEN, is_forwarded=True,
                before=lambda: refusal(place, "/sys/module/rcutree/parameters/blimit", 4), after=lambda: place.undo.since(place.kept))


def refusal(place, path, value):
    return place.undo.write(path, value)


def setting(place, name, path, value, weight=1):
    return Case(name, flood=PKTGEN, weight=weight, before=lambda: refusal(place, path, value), after=lambda: place.undo.since(place.kept))


def knobs(place):
    """Each setting of Linux alone."""
    yield Case("none", flood=PKTGEN)
    yield setting(place, "netdev_budget 300 → 64", NET + "netdev_budget", 64)
    yield setting(place, "netdev_budget_usecs → 1000", NET + "netdev_budget_usecs", 1000)
    yield setting(place, "dev_weight 64 → 16", NET + "dev_weight", 16)
    yield setting(place, "netdev_max_backlog 1000 → 100", NET + "netdev_max_backlog", 100)
    yield Case("ksoftirqd at nice 19", flood=PKTGEN, before=lambda: renice(place, 19), after=lambda: renice(place, HEAVY_NICE))
    yield Case("threaded NAPI", flood=PKTGEN, needs_napi=True, before=lambda: thread_napi(place), after=lambda: unthread_napi(place))
    yield Case("RPS off: the sender's CPU pays", flood=PKTGEN, before=lambda: place.steer(False), after=lambda: place.steer(True))


def renice(place, nice):
    for name, pid in place.kernel_tasks.items():
        if name == f"ksoftirqd/{VICTIM_CPU}":
            os.setpriority(os.PRIO_PROCESS, pid, nice)


def thread_napi(place):
    refused = sysctl(ROUTER, "/sys/class/net/vr/threaded", 1)
    if refused:
        return refused
    place.steer(False)
    time.sleep(0.05)
    for pid in kernel_tasks("napi/").values():
        os.sched_setaffinity(pid, {VICTIM_CPU})
        os.setpriority(os.PRIO_PROCESS, pid, HEAVY_NICE)
    return None


def unthread_napi(place):
    # While the interface still has a NAPI: later the write fails and the value stays.
    sysctl(ROUTER, "/sys/class/net/vr/threaded", 0)
    place.steer(True)


def guard():
    """The guard under a steady flood, bursts, frames made in the kernel, and where it can't have native XDP."""
    yield Case("calm, guard", "native")
    yield Case("flood", flood=PKTGEN)
    yield Case("flood, guard", "native", PKTGEN)
    yield Case("old flows, guard", "native", OLD, is_early=True)
    # The limit of new flows does not act on them: they fill the budget.
    for weight in (5, 60):
        yield Case(f"old flows, weight 1:{weight}, guard", "native", OLD, weight, is_early=True)
    yield Case("bursts", flood=BURST)
    yield Case("bursts, guard", "native", BURST)
    yield Case("live frames", flood={}, is_live=True)
    yield Case("live frames, guard", "native", {}, is_live=True)
    yield Case("flood, generic XDP", "generic", PKTGEN)
    yield Case("flood on another interface", "native", PKTGEN, is_elsewhere=True)
    yield Case("flood, threaded NAPI", "native", PKTGEN, needs_napi=True, also="threaded")


def starved():
    """The guard itself in a group of weight 1:60, for 10 s: with real-time priority, where the group has no budget of it
    (SCHED_DEADLINE is left), and where every priority is refused."""
    long = {"guard_weight": 60, "milliseconds": 11_000, "flood_ms": 10_000}
    yield Case("the guard at weight 1:60", "native", PKTGEN, **long)
    yield Case("the guard at weight 1:60, no real time", "native", PKTGEN, has_real_time=False, **long)
    yield Case("the guard at weight 1:60, no priority", "native", PKTGEN, has_real_time=False, may_set_priority=False, **long)


def grace():
    """Grace periods: 5 s of calm and 5 s of flood in each run, so that both are of the same run."""
    for name, kind in (("flood", "watch"), ("flood, guard", "native")):
        yield Case(f"grace periods, {name}", kind, PKTGEN, milliseconds=10_000, quiet_ms=5000, flood_ms=5000)


def causes(place, has_neighbours):
    """Each cause once as the only one: what the line of diagnosis has to name."""
    long = {"milliseconds": 4500, "quiet_ms": 1000, "flood_ms": 3000}
    yield "new-flows", ("new-flows",), Case("flood, watched", flood=PKTGEN, **long)
    yield "too-many-packets", ("too-many-packets",), Case("flood, watched without CAP_NET_ADMIN", flood=PKTGEN, may_see_packets=False, **long)
    yield "new-flows", ("new-flows",), Case("flood, throttled", "native", PKTGEN, **long)
    yield "one-large-flow", ("one-large-flow",), Case("one large flow", flood={"flows": 1, "length": 0}, **long)
    yield "established-flows", ("established-flows",), Case("old flows, budget 90 %", "native", {"flows": 2000, "length": 0}, budget=90, **long)
    yield "table-fills", ("table-fills",), Case("conntrack fills", flood=PKTGEN, before=lambda: track(place), after=lambda: untrack(place), **long)
    yield "dear-packets", ("dear-packets",), Case(
        "packets become dear", flood={"rate": 40_000, "flows": 64, "length": 0}, milliseconds=9000, quiet_ms=4500, flood_ms=3500,
        is_early=True, extra=lambda start, ms: place.role("dear", group="load", start=start, milliseconds=ms, sockets=60, **{"if": "vr"}))
    yield "not-packets", ("not-packets",), Case(
        "a busy task", milliseconds=5500, quiet_ms=1000, flood_ms=4000,
        extra=lambda start, ms: place.role("busy", group=None, cpu=VICTIM_CPU, start=start, milliseconds=ms))
    if has_neighbours:
        yield "table-fills", ("table-fills",), Case(
            "neighbours fill", flood={**PKTGEN, "rate": 50_000}, before=place.forward_to_neighbours,
            after=lambda: ip("link", "set", "vp", "down", ns="gabion-lab-beyond"), **long)


def track(place):
    """Connections of the router are tracked, in a table of 65,536 as small routers have."""
    refused = place.undo.write("/proc/sys/net/netfilter/nf_conntrack_max", 65536)
    if refused:
        return refused
    rules = "add table ip lab; add chain ip lab c { type filter hook prerouting priority 0; }; add rule ip lab c ct state invalid drop"
    done = place.start(["nft", rules], ROUTER).wait()
    return "nft refuses the rules" if done else None


def untrack(place):
    place.start(["nft", "delete table ip lab"], ROUTER).wait()
    place.undo.since(place.kept)


def fresh():
    """Floods that no constant was ever fitted to: another rate, another length of flows, IPv6."""
    long = {"milliseconds": 5500, "quiet_ms": 1500, "flood_ms": 3000}
    yield ("new-flows",), Case("150 kpps, flows of 3 packets", "native", {"rate": 150_000, "flows": 8192, "length": 3}, **long)
    yield ("new-flows",), Case("IPv6, flows of 25 packets", "native", {"family": 6, "flows": 20_000, "length": 25}, **long)
    yield ("established-flows", "one-large-flow"), Case("500 flows that never end", "native", {"flows": 500, "length": 0}, **long)
    yield (None,), Case("20 kpps, flows of 40 packets", "native", {"rate": 20_000, "flows": 2000, "length": 40}, **long)
    yield ("too-many-packets", "new-flows"), Case("bursts of 60 ms, watched", "watch", {"on": 60, "off": 40, "length": 5}, **long)
