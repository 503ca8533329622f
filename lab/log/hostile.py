#!/usr/bin/env python3
# Attacks over the network at full size, and how long a well-behaved sender waits meanwhile.
"""The hostile wire: each attack on a new server, with a well-behaved sender at the same time.

  lab/log/hostile.py [--quick] [--json FILE]

The well-behaved sender opens a RELP session, sends one message and waits for its answer, which comes when
the message is on the disk: so its time includes a new connection, the server and the disk. It must
be below 100 ms. Every server must survive, end with 0 and have counted everything.
"""
import argparse, contextlib, json, pathlib, re, resource, socket, statistics, sys, threading, time
import servers
from servers import Gabion, certificates, free_port, metrics, scratch

BAR_MS = 100
OPEN = b"1 open 53 relp_version=0\nrelp_software=librelp\ncommands=syslog\n"
ROWS = []


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=30)
    return s


def served(port):
    """Milliseconds until one message of a new RELP session is acknowledged."""
    began = time.monotonic()
    with connect(port) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        offer = b"relp_version=0\nrelp_software=lab,1\ncommands=syslog"
        s.sendall(b"1 open %d %s\n2 syslog 14 <13>a: behaved\n" % (len(offer), offer))
        got = b""
        while not got.endswith(b"2 rsp 6 200 OK\n"):
            piece = s.recv(4096)
            if not piece:
                raise SystemExit("the well-behaved sender was refused: " + repr(got))
            got += piece
    return 1000 * (time.monotonic() - began)


class Attack:
    """A server, and a well-behaved sender that continues while the server is attacked."""
    def __init__(self, what, *options, transports=("tcp", "relp"), slog=False, limit=None):
        self.what, self.options, self.transports, self.slog, self.limit = what, options, transports, slog, limit

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        place = pathlib.Path(self.stack.enter_context(scratch()))
        self.place = place
        self.metrics_port = free_port()
        options = [*self.options, "--metrics", f"127.0.0.1:{self.metrics_port}"]
        if "tls" in self.transports:
            certificates(place)
            options += ["--tls-cert", str(place / "cert.pem"), "--tls-key", str(place / "key.pem")]
        self.server = Gabion(place, *options, transports=self.transports, slog=self.slog, descriptors=self.limit)
        self.times, self.is_attacked = [], True
        self.thread = threading.Thread(target=self.behave)
        self.thread.start()
        return self

    def behave(self):
        while self.is_attacked:
            self.times.append(served(self.server.ports["relp"]))
            time.sleep(0.02)

    def port(self, transport):
        return self.server.ports[transport]

    def __exit__(self, kind, value, trace):
        self.is_attacked = False
        self.thread.join()
        if kind is not None:
            self.server.child.kill()
            self.stack.close()
            return
        time.sleep(0.6)
        counted = metrics(self.metrics_port)
        done = self.server.stop()
        counts = {k: int(v) for k, v in counted.items() if v and k.startswith("gabion_listen_") and "accepted" not in k}
        short = lambda k: re.sub(r'^gabion_listen_(\w+?)(_total)?(\{\w+="(\w[\w-]*)"\})?$', lambda m: m[4] or m[1], k).replace("_", " ")
        counters = ", ".join(f"{v} {short(k)}" for k, v in counts.items())
        worst, middle = max(self.times), statistics.median(self.times)
        row = {"what": self.what, "exit": done["exit"], "worst_ms": worst, "median_ms": middle, "probes": len(self.times),
               "counted": counts, "peak_mib": done["peak_mib"], "stored": done["stored"], "note": getattr(self, "note", "")}
        ROWS.append(row)
        verdict = "lives" if done["exit"] == 0 else f"EXIT {done['exit']}"
        print(f"| {self.what} | {verdict} | {middle:.1f} / {worst:.1f} ms ({len(self.times)}) | {counters} {row['note']} | {done['peak_mib']:.0f} MiB |", flush=True)
        self.stack.close()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json")
    options = options.parse_args()
    # The timed sender shares this process with the attack.
    sys.setswitchinterval(0.0005)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    many = 1_000 if options.quick else min(10_000, most - 1_000)
    gigabyte = (1 << 26) if options.quick else 1_000_000_000
    print("| attack | server | well-behaved sender: median / worst (tries) | counted | peak |\n|---|---|---|---|---|")
    with Attack("no attack"):
        time.sleep(2)
    with Attack(f"{many:,} idle connections, capacity for all", "--connections", str(many + 1_000)) as a:
        idle = [connect(a.port("tcp")) for _ in range(many)]
        time.sleep(3)
        held = metrics(a.metrics_port).get("gabion_listen_connections", 0)
        a.note = f"({int(held)} held)"
        for s in idle:
            s.close()
    with Attack(f"{many:,} idle connections, capacity for 1,000") as a:
        idle = [connect(a.port("tcp")) for _ in range(many)]
        time.sleep(1)
        for s in idle:
            s.close()
    with Attack(f"one line of {gigabyte / 1e9:.2g} GB") as a:
        with connect(a.port("tcp")) as s:
            piece = b"x" * (1 << 20)
            for _ in range(gigabyte // len(piece)):
                s.sendall(piece)
            s.sendall(b"\n<13>a: after it\n")
    with Attack("256 descriptors, 400 idle connections, then a line on each", limit=256) as a:
        idle = [connect(a.port("tcp")) for _ in range(400)]
        time.sleep(0.5)
        for s in idle:
            with contextlib.suppress(OSError):
                s.sendall(b"<13>a: one line\n")
        time.sleep(0.5)
        for s in idle:
            s.close()
        a.note = "(rsyslog 8.2302 stored none of the 400 lines, syslog-ng 3.38 ten)"
    with Attack("TLS garbage, half handshakes, silence: 300 connections", transports=("tls", "relp")) as a:
        held = []
        for n in range(300):
            s = connect(a.port("tls"))
            with contextlib.suppress(OSError):
                s.sendall([b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", b"\x80" * 3000, b""][n % 4])
            held.append(s)
        time.sleep(2 if options.quick else 12)
    with Attack("RELP half open, half frames, lengths that can't be: 300 connections") as a:
        held = []
        for n in range(300):
            s = connect(a.port("relp"))
            with contextlib.suppress(OSError):
                s.sendall([b"", b"1 open 86 relp", b"1 open 999999999 x", OPEN + b"2 syslog 100 abc", OPEN + b"9 syslog 3 abc\n"][n % 5])
            held.append(s)
        time.sleep(2 if options.quick else 12)
    with Attack("frame lengths without end: 300 connections of 100 kB digits") as a:
        held = []
        for n in range(300):
            s = connect(a.port("tcp"))
            s.sendall([b"9" * 100_000, b"1048576 <13>", b"4294967296 <13>x\n", b"0 " * 50_000][n % 4])
            held.append(s)
        time.sleep(1)
    with Attack("100 MB of unfinished frames: 1,500 connections", "--connections", "2000") as a:
        held = []
        for n in range(150 if options.quick else 1_500):
            s = connect(a.port("tcp"))
            s.sendall(b"y" * 65_000)
            held.append(s)
        time.sleep(2)
    if servers.SLOG.exists():
        with Attack("envelopes: short nonce, no comma, no base64, 4 kB of hex; 2,000 each way", transports=("tcp", "relp", "slog-tcp", "slog-udp"), slog=True) as a:
            kinds = [b"00,AA==", b"no comma", b"0011,AAAA", b"a" * 4000]
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            for n in range(200 if options.quick else 2_000):
                udp.sendto(kinds[n % 4], ("127.0.0.1", a.port("slog-udp")))
                with connect(a.port("slog-tcp")) as s:
                    s.sendall(kinds[n % 4])
                    s.shutdown(socket.SHUT_WR)
                    s.recv(2)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(ROWS, indent=1))
    bad = [r["what"] for r in ROWS if r["exit"] != 0 or r["worst_ms"] > BAR_MS]
    if bad:
        sys.exit(f"longer than {BAR_MS} ms, or not alive: " + "; ".join(bad))


if __name__ == "__main__":
    main()
