#!/usr/bin/env python3
# Measures the commands of the sealed log as whole processes, process start included.
"""Benchmark of `gabion log`: whole processes on logs made here.

  lab/bench/seal.py [--binary PATH] [--runs N] [--json FILE]

`show` prints 7,000 records whose data key is wrapped for an RSA-4096 key; `import-slog` reads 7,000 lines
of slog's own file with all of its checks; `verify` checks a log of real text with all cores.
"""
import argparse, json, os, pathlib, statistics, subprocess, sys, tempfile, time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus")).resolve()


def measure(argv, cwd, given=None):
    """Wall and CPU seconds of one process."""
    start = time.monotonic()
    with open(given, "rb") if given else open(os.devnull, "rb") as source, open(os.devnull, "wb") as sink:
        child = subprocess.Popen(argv, cwd=cwd, stdin=source, stdout=sink, stderr=subprocess.PIPE)
        output = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - start
    if child.returncode not in (0, 10):
        sys.exit(f"{' '.join(map(str, argv))}: exit {child.returncode}: {output.decode()}")
    return wall, usage.ru_utime + usage.ru_stime


def text(names):
    lines = []
    for name in names:
        path = CORPUS / f"sealed/text/{name}_2k.log.zst"
        plain = subprocess.run(["zstd", "-dcq", str(path)], capture_output=True, check=True).stdout
        lines += [line.rstrip(b"\r") for line in plain.split(b"\n") if line.strip()]
    return lines


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--binary", default=str(TARGET / "release/gabion"))
    a.add_argument("--runs", type=int, default=9)
    a.add_argument("--json")
    o = a.parse_args()
    if not (CORPUS / "sealed").is_dir():
        print(f"bench: skipped: no corpus at {CORPUS} (set GABION_CORPUS)")
        return 0
    rows = []

    def row(what, figure, unit, must, more=""):
        met = must is None or figure <= must
        rows.append({"what": what, "figure": figure, "unit": unit, "must": must, "met": met, "more": more})
        judged = "" if must is None else f"must {must:<5} {'met' if met else 'MISSED'}"
        print(f"{what:40} {figure:8.2f} {unit:18} {judged:18} {more}", flush=True)

    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        log = [o.binary, "log"]

        def run(*argv, given=None):
            return measure([*log, *argv], place, given)

        run("keygen", "--out", "reader", "--type", "rsa4096")
        lines = text(["Linux", "OpenSSH", "Mac", "Thunderbird"])
        (place / "lines").write_bytes(b"\n".join(lines[:7000]) + b"\n")
        (place / "many").write_bytes((b"\n".join(lines) + b"\n") * 250)
        for name, given in (("small", "lines"), ("large", "many")):
            run("init", name, "--origin", f"bench.example/{name}", "--recipient", "reader/recipient.pub")
            run("append", name, "-q", given=place / given)
        nothing = statistics.median(run("--help")[0] for _ in range(o.runs))
        row("start of the program", nothing * 1e3, "ms", None)
        show = [run("show", "small", "--key", "reader/recipient.key", "--kind", "message") for _ in range(o.runs)]
        row("show of 7,000 records, RSA-4096", statistics.median(w for w, _ in show) * 1e3, "ms", 25,
            f"{statistics.median(c for _, c in show) * 1e3:.1f} ms CPU; 7,410 ms published")
        slog = CORPUS / "sealed/slog"
        good = (slog / "good.slog").read_bytes().splitlines(keepends=True)
        # A chain may start again at its first line, so the file can be repeated.
        (place / "big.slog").write_bytes(b"".join((good * (7000 // len(good) + 1))[:7000]))
        (place / "password").write_text("my-fancy-password")
        argv = ["import-slog", "big.slog", "--priv-key", str(slog / "storage_rsa.slogpem"), "--password-file", "password"]
        for more, must in (((), 100), (("--check-wraps",), None)):
            done = [measure_code(log + argv + list(more), place) for _ in range(o.runs if must else 1)]
            row("import of slog's 7,000 lines" + (", each unwrapped" if more else ""),
                statistics.median(done) * 1e3, "ms CPU", must)
        size = sum(f.stat().st_size for f in (place / "large").iterdir())
        verify = [run("verify", "large", "-q") for _ in range(3)]
        wall, cpu = (statistics.median(v[i] for v in verify) for i in (0, 1))
        row("verify without key, 2 M records", wall * 1e3, "ms", None,
            f"{size / wall / 1e9:.2f} GB/s by the clock, {size / cpu / 1e9:.2f} GB/s a core, page cache warm")
        opened = [run("verify", "large", "-q", "--key", "reader/recipient.key") for _ in range(3)]
        wall, cpu = (statistics.median(v[i] for v in opened) for i in (0, 1))
        row("verify with key, 2 M records", wall * 1e3, "ms", None, f"{2 / cpu:.2f} M records/s/core")
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(rows, indent=1))
    return 0


def measure_code(argv, cwd):
    """CPU seconds of an import; exit code 1 reports a chain that starts again."""
    child = subprocess.Popen(argv, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1):
        sys.exit(f"{' '.join(map(str, argv))}: exit {child.returncode}")
    return usage.ru_utime + usage.ru_stime


sys.exit(main())
