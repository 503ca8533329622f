#!/usr/bin/env python3
# Runs the published stress tests of slog in their order on our log intake; then real senders.
"""Repeats the timeline of slog's benchmarks.

  lab/log/lab.py [--quick] [--json FILE]

Every row has a new server and a new log. "stored/sent" counts the sealed messages after the server has ended
on SIGTERM; the missing ones must be among those that it counted itself.
"""
import argparse, json, pathlib, re, resource, subprocess, sys, time
import chain, servers
from servers import Gabion, Rsyslog, SyslogNg, certificates, find, scratch, send, starts, wait_for

ROWS = []


def row(what, published, ours, stored, sent, counted, note=""):
    whole = "all" if stored == sent else f"{stored}+{counted} counted" if stored + counted == sent else f"{stored}, {counted} counted: NOT WHOLE"
    ROWS.append({"what": what, "published": published, "ours": ours, "stored": stored, "sent": sent, "counted": counted, "note": note})
    print(f"| {what} | {published} | {ours} | {stored}/{sent} ({whole}) | {note} |", flush=True)


# slog's author sent this: a blob and a password wrapped for a key that nobody has, with and without the comma.
BLOB = "9a959a392810308a4df45613e82548a375042c6c1d8bacc76b1f89e4fb168d7611eadd7c7ed210e32123"
WRAP = ("PoUu+c2fFLdCZWU/Tu+urQsvQAxgOzfjW1h8Gidf6JjuCfSF7TNcWN0ypQqe4sfGqgKtGFqIe72Ml6V6bdrV4HbIpav0RAXZCWtGAcPW4aJMIUpd69asUzL6QLmrKOlJS3DAol/frJtNg+G6udT9KN6F"
        "d4SBTbqmropxXbim41aZgsQYEKEMVcRAPXczZJm6y7jxJKEATviIfLOSKDmWxF6S7AzaB69bcWn+QJNKfd6nqBcXlgKESwwWjLs48/hWTIohT6Rov5Bzjm+Chyr5fePMUQLoPDKRJqQ1MTmIQmUcP6on"
        "FeMVp6uKurnjL02JXiK5dux7YW/tnY7/AqhD1Q==")


def stress(what, published, count, transports=("udp", "tcp"), slog=False, options=(), load=(), text=None):
    """A new server and a load; with `text`, that line goes to slog's ports, in a connection for each over TCP."""
    if slog and not servers.SLOG.exists():
        print(f"| {what} | {published} | no keys (they are in the corpus) | | |")
        return
    with scratch() as place:
        place = pathlib.Path(place)
        server = Gabion(place, *options, transports=transports, slog=slog)
        ports, extra = server.ports, []
        if text is not None:
            (place / "line").write_text(text + "\n")
            ports = {"udp": server.ports["slog-udp"], "tcp": server.ports["slog-tcp"]}
            extra = ["--raw", "--text", str(place / "line"), "--connection-each", "--connections", "8"]
        elif slog:
            extra = ["--slog-key", str(servers.SLOG / "comms_rsa.pub")]
        began = time.monotonic()
        report = send(ports, "--count", str(count), *extra, *load)
        done = server.stop()
        wall = time.monotonic() - began
        ours = f"{report['wall']:.3f} s to send, {wall:.3f} s to the end, {done['cpu']:.2f} s CPU"
        note = f"{done['bytes'] / max(done['stored'], 1):.1f} bytes a message, peak {done['peak_mib']:.0f} MiB"
        if done["exit"] != 0:
            note += f", EXIT {done['exit']}"
        row(what, published, ours, done["stored"], report["sent"], done["counted"], note)


def one_unwrap(published):
    """RSA alone, as in slog's unit test, at the sizes of keys in use."""
    limit = servers.TARGET / "release/gabion-limit"
    if not limit.exists() or not servers.SLOG.exists():
        return
    output = subprocess.run([limit, "--rsa", str(servers.SLOG / "comms_rsa.slogpem")], capture_output=True, text=True).stdout
    rate = float(re.search(r"[\d.]+", output)[0])
    print(f"| one private RSA operation (published: 8,096 bits; here: the 2,048 that slog uses) | {published} | {1 / rate:.6f} s | | {rate:,.0f} a second of a core |")


def replay(published, count):
    """A storage file of slog with one unbroken chain, made from slog's description."""
    with scratch() as place:
        place = pathlib.Path(place)
        if not servers.SLOG.exists() or not chain.write(place / "big.slog", count, servers.SLOG / "storage_rsa.pub"):
            print(f"| replay of {count:,} lines | {published} | needs the corpus's keys and python3-cryptography | | |")
            return
        (place / "password").write_text("my-fancy-password")
        argv = [servers.GABION, "log", "import-slog", str(place / "big.slog"), "--priv-key", str(servers.SLOG / "storage_rsa.slogpem"),
                "--password-file", str(place / "password")]
        for what, extra in ((f"replay of {count:,} lines", []), ("… every line's RSA checked, as slog does", ["--check-wraps"])):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            done = subprocess.run(argv + extra, capture_output=True, text=True)
            wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            output = re.search(r'"Total lines processed": (\d+), "Replay Suspicious Lines": (\d+)', done.stdout + done.stderr)
            good = int(output[1]) - int(output[2]) if output else 0
            row(what, published, f"{wall:.3f} s, {cpu:.2f} s CPU", good, count, 0, output[0] if output else done.stderr.strip()[-120:])


def forwarded(name, server, make, transport, count):
    """A real sender receives messages over TCP and forwards them to Gabion."""
    with scratch() as a, scratch() as b:
        a, b = pathlib.Path(a), pathlib.Path(b)
        certificates(b)
        options = ["--tls-cert", str(b / "cert.pem"), "--tls-key", str(b / "key.pem")] if transport == "tls" else []
        ours = Gabion(a, *options, transports=(transport,))
        theirs = make(b, forward=(transport, ours.ports[transport]), tls_ca=b / "ca.pem")
        began = time.monotonic()
        report = send({"tcp": theirs.ports["tcp"]}, "--count", str(count))
        log = a / "log"
        size = lambda: sum(f.stat().st_size for f in log.iterdir())
        last = [size(), time.monotonic()]

        def quiet():
            now = size()
            if now != last[0]:
                last[:] = [now, time.monotonic()]
            return time.monotonic() - last[1] > 2
        wait_for(quiet, 60, 0.1)
        wall = last[1] - began
        theirs.stop()
        done = ours.stop()
        # A sender also logs its own start and end.
        row(f"{name} over {transport.upper()}", "–", f"{wall:.2f} s", min(done["stored"], report["sent"]), report["sent"], done["counted"],
            f"{done['stored'] - report['sent']} of the sender's own" if done["stored"] > report["sent"] else "")


def logger(transport, flag, count):
    with scratch() as place:
        place = pathlib.Path(place)
        server = Gabion(place, transports=(transport,))
        (place / "lines").write_text("".join(f"line {n} of logger\n" for n in range(count)))
        began = time.monotonic()
        subprocess.run(["logger", "-n", "127.0.0.1", "-P", str(server.ports[transport]), *flag, "-t", "lab", "-f", str(place / "lines")], check=True)
        wall = time.monotonic() - began
        done = server.stop()
        row(f"logger {' '.join(flag)}", "–", f"{wall:.2f} s", done["stored"], count, done["counted"])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true", help="a tenth of every count")
    options.add_argument("--json")
    options = options.parse_args()
    part = 10 if options.quick else 1
    has_rsyslog, has_syslog_ng = starts("rsyslogd", Rsyslog), starts("syslog-ng", SyslogNg)
    print("| experiment | published | Gabion | stored/sent | |\n|---|---|---|---|---|")
    stress("barebones, 10k UDP + 10k TCP", "0.95–1.00 s", 10_000 // part)
    stress("the same, a connection for each message, as the script did", "0.95–1.00 s", 10_000 // part, load=["--connection-each", "--connections", "4"])
    stress("password encryption (Gabion always seals)", "0.90–1.09 s", 10_000 // part)
    stress("… and storing", "1.02–1.09 s", 10_000 // part)
    stress("… and compressed", "1.15–1.21 s", 10_000 // part)
    stress("… not compressed", "1.02–1.08 s", 10_000 // part, options=["--no-compress"])
    stress("… chained by hashes (Gabion: in a signed tree)", "0.98–1.06 s", 10_000 // part)
    one_unwrap("0.0656 s")
    both = ("slog-udp", "slog-tcp")
    stress("RSA + AES: the published envelope, 1k + 1k", "0.13–0.16 s", 1_000 // part, both, True, text=f"{BLOB},{WRAP}")
    stress("the published envelope, 10k + 10k", "server crashed above 1.5k", 10_000 // part, both, True, text=f"{BLOB},{WRAP}")
    stress("the same without its comma, 10k + 10k", "1.41–1.49 s, M1 2.00 s", 10_000 // part, both, True, text=BLOB + WRAP)
    stress("real envelopes, 1k + 1k", "–", 1_000 // part, both, True, load=["--connections", "8"])
    stress("real envelopes, 10k + 10k", "server crashed", 10_000 // part, both, True, load=["--connections", "8"])
    stress("100k UDP + 100k TCP", "server crashed", 100_000 // part)
    replay("7.41 s (7.14 s CPU)", 7_000 // part)
    logger("udp", ["-d", "--rfc3164"], 1_000 // part)
    logger("tcp", ["-T", "--octet-count"], 1_000 // part)
    logger("tcp", ["-T", "--rfc3164"], 1_000 // part)
    if has_rsyslog:
        for transport in ("tcp", "tls", "relp"):
            forwarded("rsyslog", "rsyslogd", Rsyslog, transport, 10_000 // part)
    else:
        print("| rsyslog | – | not here | | |")
    if has_syslog_ng:
        for transport in ("tcp", "tls"):
            forwarded("syslog-ng", "syslog-ng", SyslogNg, transport, 10_000 // part)
    else:
        print("| syslog-ng | – | not here | | |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(ROWS, indent=1))
    if any(r["stored"] + r["counted"] != r["sent"] for r in ROWS):
        sys.exit("a row does not add up")


if __name__ == "__main__":
    main()
