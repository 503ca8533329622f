#!/usr/bin/env python3
# Floods a server with more than twice its capacity, and checks that its memory does not grow.
"""Ten minutes of more than the server's capacity, over every transport at once.

  lab/log/flood.py [--seconds N] [--nice N] [--json FILE]

Server and senders share one processor, the server with lower priority, so that the load is more than
twice its capacity. Datagrams are then lost, and counted; connections are slowed. Memory is measured
every second: the program's own memory (without its mapped file) must stay below 64 MiB
and two chunks of 256 KiB, and must not grow in the second half.
"""
import argparse, json, os, pathlib, re, statistics, subprocess, sys, time
import servers
from servers import GABION, Gabion, scratch

BAR_MIB = 64.5


def memory(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {k: int(re.search(rf"{k}:\s+(\d+)", text)[1]) / 1024 for k in ("VmRSS", "RssAnon", "VmHWM")}


def slope(samples):
    """MiB a minute, least squares."""
    if len(samples) < 3:
        return 0.0
    xs = [t / 60 for t, _ in samples]
    ys = [m for _, m in samples]
    mx, my = statistics.fmean(xs), statistics.fmean(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys)) / max(sum((x - mx) ** 2 for x in xs), 1e-9)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=int, default=600)
    options.add_argument("--nice", type=int, default=8)
    options.add_argument("--json")
    options = options.parse_args()
    text = servers.CORPUS / "sealed/text/Linux_2k.log.zst"
    load = ["--text", str(text)] if text.exists() else []
    slog = servers.SLOG.exists()
    transports = ("udp", "tcp", "relp") + (("slog-udp",) if slog else ())
    one = max(os.sched_getaffinity(0))
    with scratch() as place:
        place = pathlib.Path(place)
        os.sched_setaffinity(0, {one})
        server = Gabion(place, transports=transports, slog=slog)
        for task in pathlib.Path(f"/proc/{server.child.pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(task.name), options.nice)
        argv = [GABION, "send", "--json", "--seconds", str(options.seconds), *load]
        for t in transports:
            argv += [f"--{t}", f"127.0.0.1:{server.ports[t]}"]
        if slog:
            argv += ["--slog-key", str(servers.SLOG / "comms_rsa.pub")]
        began = time.monotonic()
        sender = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        samples = []
        while sender.poll() is None:
            samples.append((time.monotonic() - began, memory(server.child.pid)))
            time.sleep(1)
        senders = {t["transport"]: t for t in json.loads(sender.stdout.read())["transports"]}
        done = server.stop()
    last = [l for l in done["output"].splitlines() if "received" in l][-1]
    passed = {m[1]: int(m[2]) for m in re.finditer(r"listen\.([a-z-]+)\.\d+: \d+ received, (\d+) passed", last)}
    sent = sum(t["sent"] for t in senders.values())
    anon = [(t, m["RssAnon"]) for t, m in samples]
    half = [s for s in anon if s[0] > options.seconds / 2]
    peak = max(m for _, m in anon)
    whole = max(m["VmHWM"] for _, m in samples)
    growth = slope(half)
    udp = senders["udp"]["sent"] / max(passed.get("udp", 0), 1)
    print(f"| {options.seconds} s | sent {sent:,} = stored {done['stored']:,} + counted {done['counted']:,}: {'exact' if sent == done['stored'] + done['counted'] else 'NOT EXACT'} | "
          f"UDP offered {udp:.1f} times what was taken | peak {peak:.1f} MiB ({whole:.1f} with the program's own text) | second half {growth:+.2f} MiB a minute | exit {done['exit']} |")
    for t, row in senders.items():
        print(f"  {t}: {row['sent']:,} sent, {row['sent'] / row['seconds']:,.0f}/s; {passed.get(t, 0):,} taken")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"samples": samples, "sent": sent, "stored": done["stored"], "counted": done["counted"],
                                                          "peak_mib": peak, "growth_mib_a_minute": growth, "udp_times": udp, "output": last}, indent=1))
    faults = []
    if done["exit"] != 0:
        faults.append(f"exit {done['exit']}: {done['output'][-500:]}")
    if sent != done["stored"] + done["counted"]:
        faults.append("sent is not stored and counted")
    if peak > BAR_MIB:
        faults.append(f"more than {BAR_MIB} MiB")
    if growth > 0.5 and options.seconds >= 120:
        faults.append("memory grows")
    if faults:
        sys.exit("; ".join(faults))


if __name__ == "__main__":
    main()
