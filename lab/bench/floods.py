#!/usr/bin/env python3
# Measures the cost of floods of new flows without enough memory, as a ratio to the cost with enough.
"""Floods of new flows: CPU seconds divided by those of the same flood with memory for all flows and one worker.

  lab/bench/floods.py [--binary PATH] [--runs N] [--smoke]

Ends with 1 when a ratio is above 2. The tests bound the same in steps (crates/net/src/flood.rs)."""
import argparse, os, pathlib, struct, subprocess, sys, tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
MOST = 2.0


def flood(path, count, transport):
    """A capture of `count` one-packet flows, raw IPv4, 200,000 a second."""
    if path.exists():
        return path
    payload, number = (struct.pack(">HHIIBBHHH", 9, 80, 1, 0, 0x50, 2, 65535, 0, 0), 6) if transport == "syn" \
        else (struct.pack(">HHHH", 9, 9999, 12, 0) + b"abcd", 17)
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
        for i in range(count):
            ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(payload), 0, 0, 64, number, 0, 0x0B000000 + i * 7, 0xC0000201)
            second, rest = divmod(i, 200_000)
            f.write(struct.pack("<IIII", 1_700_000_000 + second, rest * 5, 20 + len(payload), 20 + len(payload)) + ip + payload)
    return path


def cpu(argv):
    """CPU seconds of one process."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    process.returncode = code
    if code != 0:
        raise SystemExit(f"floods: {' '.join(argv)}: exit {code}")
    return usage.ru_utime + usage.ru_stime


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=os.environ.get("GABION", str(TARGET / "release/gabion")))
    a.add_argument("--runs", type=int, default=3)
    a.add_argument("--smoke", action="store_true", help="small floods, no bound")
    o = a.parse_args()
    work = TARGET / "bench"
    work.mkdir(parents=True, exist_ok=True)
    scale, runs = (50, 1) if o.smoke else (1, o.runs)
    small, worst = [("--budget", "64MiB"), ("--budget", "16MiB"), ()], 0.0
    for name, transport, count, budgets, workers in (
        ("200,000 SYN", "syn", 200_000, small, (1, 2, 4)),
        ("500,000 SYN", "syn", 500_000, small, (1, 2, 4)),
        ("1,000,000 UDP", "udp", 1_000_000, small, (1, 2, 4)),
    ):
        capture = str(flood(work / f"{transport}-{count // scale}.pcap", count // scale, transport))
        read = [o.binary, "read", capture, "-k", "none", "-q"]
        roomy = ["--budget", "8GiB", "--set", "flow.memcap=4gb", "--workers", "1"]
        plain = min(cpu(read + roomy) for _ in range(runs))
        for budget in budgets:
            for n in workers:
                took = min(cpu([*read, *budget, "--workers", str(n)]) for _ in range(runs))
                worst = max(worst, took / plain)
                print(f"{name:14} {' '.join(budget) or 'usual budget':16} {n} workers: {took:6.2f} CPU-s, "
                      f"{took / plain:4.2f} times the {plain:.2f} with memory for all", flush=True)
    print(f"floods: at most {worst:.2f} times (bound {MOST})")
    return 0 if o.smoke or worst <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
