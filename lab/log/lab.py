#!/usr/bin/env python3
# The published stress tests of slog in their order, on our log intake; then real senders.
"""The timeline of slog's benchmarks, repeated.

  lab/log/lab.py [--quick] [--json FILE]

Every row is a fresh server and a fresh log. "stored/sent" counts what is sealed when the server has ended
after SIGTERM; what is missing must stand among what it counted itself.
"""
import argparse, json, pathlib, subprocess, sys, time
import servers
from servers import Gabion, Rsyslog, SyslogNg, certificates, find, scratch, send, wait_for

ROWS = []


def row(what, published, ours, stored, sent, counted, note=""):
    whole = "all" if stored == sent else f"{stored}+{counted} counted" if stored + counted == sent else f"{stored}, {counted} counted: NOT WHOLE"
    ROWS.append({"what": what, "published": published, "ours": ours, "stored": stored, "sent": sent, "counted": counted, "note": note})
    print(f"| {what} | {published} | {ours} | {stored}/{sent} ({whole}) | {note} |", flush=True)


def stress(what, published, count, transports=("udp", "tcp"), slog=False, options=(), load=()):
    with scratch() as place:
        place = pathlib.Path(place)
        server = Gabion(place, *options, transports=transports, slog=slog)
        extra = ["--slog-key", str(servers.SLOG / "comms_rsa.pub")] if slog else []
        began = time.monotonic()
        told = send(server.ports, "--count", str(count), *extra, *load)
        if slog:
            # Datagrams have no answer: the end of the run waits for the workers anyhow.
            time.sleep(0.1)
        done = server.stop()
        wall = time.monotonic() - began
        ours = f"{told['wall']:.3f} s to send, {wall:.3f} s to the end, {done['cpu']:.2f} s CPU"
        note = f"{done['bytes'] / max(done['stored'], 1):.1f} bytes a message, peak {done['peak_mib']:.0f} MiB"
        if done["exit"] != 0:
            note += f", EXIT {done['exit']}"
        row(what, published, ours, done["stored"], told["sent"], done["counted"], note)


def replay(published):
    """slog's own storage file of 7,000 lines, if this program imports such."""
    with scratch() as place:
        place = pathlib.Path(place)
        good = (servers.SLOG / "good.slog").read_bytes().splitlines(keepends=True)
        # The chain restarts at its first line, so the file can be repeated.
        (place / "big.slog").write_bytes(b"".join((good * (7000 // len(good) + 1))[:7000]))
        (place / "password").write_text("my-fancy-password")
        argv = [servers.GABION, "log", "import-slog", str(place / "big.slog"), "--priv-key", str(servers.SLOG / "storage_rsa.slogpem"),
                "--password-file", str(place / "password")]
        began = time.monotonic()
        done = subprocess.run(argv, capture_output=True, text=True)
        wall = time.monotonic() - began
        said = (done.stdout + done.stderr).strip().splitlines()
        if "unrecognized" in done.stderr:
            print(f"| replay of 7,000 lines | {published} | not in this program | | |")
            return
        row("replay of 7,000 lines", published, f"{wall:.3f} s", 7000, 7000, 0, said[-1][:120] if said else "")


def forwarded(name, server, make, transport, count):
    """A real sender gets messages over TCP and forwards them to us."""
    with scratch() as a, scratch() as b:
        a, b = pathlib.Path(a), pathlib.Path(b)
        certificates(b)
        options = ["--tls-cert", str(b / "cert.pem"), "--tls-key", str(b / "key.pem")] if transport == "tls" else []
        ours = Gabion(a, *options, transports=(transport,))
        theirs = make(b, forward=(transport, ours.ports[transport]), tls_ca=b / "ca.pem")
        began = time.monotonic()
        told = send({"tcp": theirs.ports["tcp"]}, "--count", str(count))
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
        # A sender also tells of its own start and end.
        row(f"{name} over {transport.upper()}", "–", f"{wall:.2f} s", min(done["stored"], told["sent"]), told["sent"], done["counted"],
            f"{done['stored'] - told['sent']} of the sender's own" if done["stored"] > told["sent"] else "")


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
    print("| experiment | published | ours | stored/sent | |\n|---|---|---|---|---|")
    stress("barebones, 10k UDP + 10k TCP", "0.95–1.00 s", 10_000 // part)
    stress("the same, a connection for each message", "0.95–1.00 s", 10_000 // part, load=["--connection-each", "--connections", "4"])
    stress("password encryption before storing (ours always seals)", "0.90–1.09 s", 10_000 // part)
    stress("… and compressed", "1.15–1.21 s", 10_000 // part)
    stress("… not compressed", "1.02–1.08 s", 10_000 // part, options=["--no-compress"])
    stress("… chained by hashes (ours: in a signed tree)", "1.04–1.06 s", 10_000 // part)
    stress("RSA + AES envelopes, 1k + 1k", "0.13–0.16 s", 1_000 // part, ("slog-udp", "slog-tcp"), True, load=["--connections", "8"])
    stress("RSA + AES envelopes, 10k + 10k", "server crashed", 10_000 // part, ("slog-udp", "slog-tcp"), True, load=["--connections", "8"])
    stress("100k UDP + 100k TCP", "server crashed", 100_000 // part)
    replay("7.41 s (7.14 s CPU)")
    logger("udp", ["-d", "--rfc3164"], 1_000 // part)
    logger("tcp", ["-T", "--octet-count"], 1_000 // part)
    logger("tcp", ["-T", "--rfc3164"], 1_000 // part)
    if find("rsyslogd"):
        for transport in ("tcp", "tls", "relp"):
            forwarded("rsyslog", "rsyslogd", Rsyslog, transport, 10_000 // part)
    else:
        print("| rsyslog | – | not here | | |")
    if find("syslog-ng"):
        for transport in ("tcp", "tls"):
            forwarded("syslog-ng", "syslog-ng", SyslogNg, transport, 10_000 // part)
    else:
        print("| syslog-ng | – | not here | | |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(ROWS, indent=1))
    if any(r["stored"] + r["counted"] != r["sent"] for r in ROWS):
        sys.exit("a row does not add up")


main()
