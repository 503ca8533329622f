# Starts log servers (Gabion, rsyslog, syslog-ng), sends to them, and reports what they received, used and stored.
"""Log servers as whole processes, for the laboratory and the benchmark."""
import json, os, pathlib, re, resource, shutil, signal, socket, subprocess, tempfile, time, urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
# The folder keeps its older name, so that programs that were unpacked before are found.
UNPACKED = TARGET / "log-servers"
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus")).resolve()
GABION = os.environ.get("GABION", str(TARGET / "release/gabion"))
SLOG = CORPUS / "sealed/slog"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(check, seconds, step=0.02):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if check():
            return True
        time.sleep(step)
    return False


def listening(port):
    with socket.socket() as s:
        s.settimeout(0.5)
        return s.connect_ex(("127.0.0.1", port)) == 0


def environment():
    libraries = [UNPACKED / p for p in ("usr/lib/x86_64-linux-gnu", "usr/lib", "lib/x86_64-linux-gnu", "usr/lib/syslog-ng")]
    return dict(os.environ, LD_LIBRARY_PATH=":".join(map(str, libraries)))


def find(name):
    """The program of rsyslog or syslog-ng: the unpacked one, or the system's."""
    for folder in ("usr/sbin", "usr/bin"):
        if (UNPACKED / folder / name).exists():
            return str(UNPACKED / folder / name)
    return shutil.which(name)


def certificates(folder):
    """An authority and a server certificate signed by it, for localhost."""
    def run(*args):
        subprocess.run(["openssl", *args], check=True, stderr=subprocess.DEVNULL)
    p = lambda n: str(folder / n)
    (folder / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("req", "-x509", *ec, "-days", "2", "-subj", "/CN=authority", "-keyout", p("ca.key"), "-out", p("ca.pem"))
    run("req", *ec, "-subj", "/CN=localhost", "-keyout", p("key.pem"), "-out", p("csr.pem"))
    run("x509", "-req", "-in", p("csr.pem"), "-CA", p("ca.pem"), "-CAkey", p("ca.key"), "-CAcreateserial",
        "-days", "2", "-extfile", p("ext"), "-out", p("cert.pem"))


class NotHere(Exception):
    """A server that does not run on this machine, and why."""


def starts(program, server):
    """Whether a server is installed and listens when started; prints a message if not."""
    why = "not found"
    if find(program):
        with scratch() as place:
            try:
                server(pathlib.Path(place)).stop()
                return True
            except NotHere as e:
                why = str(e)
    print(f"{program}: {why}: compared without it", flush=True)
    return False


class Server:
    """A server process: its cost and what it stored."""
    def __init__(self, argv, folder, env=None, descriptors=None):
        self.folder = folder
        self.output = open(folder / "output", "w+")
        limit = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))) if descriptors else None
        self.child = subprocess.Popen(argv, stdout=self.output, stderr=self.output, env=env, cwd=folder, preexec_fn=limit)

    def threads_cpu(self, name):
        """Processor seconds so far of the threads whose names begin with `name`."""
        spent = 0
        for task in pathlib.Path(f"/proc/{self.child.pid}/task").iterdir():
            before, fields = (task / "stat").read_text().rsplit(")", 1)
            if before.split("(", 1)[1].startswith(name):
                spent += int(fields.split()[11]) + int(fields.split()[12])
        return spent / os.sysconf("SC_CLK_TCK")

    def cpu(self):
        fields = pathlib.Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            peak = int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{self.child.pid}/status").read_text())[1]) / 1024
        except (OSError, TypeError):
            peak = 0.0
        _, status, usage = os.wait4(self.child.pid, 0)
        self.child.returncode = os.waitstatus_to_exitcode(status)
        self.output.flush()
        self.output.seek(0)
        text = self.output.read()
        return {"exit": self.child.returncode, "cpu": usage.ru_utime + usage.ru_stime, "peak_mib": peak, "output": text}


class Gabion(Server):
    name = "gabion"

    def __init__(self, folder, *options, transports=("udp", "tcp"), slog=False, descriptors=None):
        self.ports = {t: free_port() for t in transports}
        argv = [GABION, "listen", "--log", str(folder / "log")]
        public = folder / "recipient"
        shutil.copy(SLOG / "storage_rsa.pub", public)
        argv += ["--recipient", str(public)]
        for transport, port in self.ports.items():
            argv += [f"--{transport}", f"127.0.0.1:{port}"]
        if slog:
            argv += ["--slog-key", str(SLOG / "comms_rsa.slogpem")]
        super().__init__(argv + list(options), folder, descriptors=descriptors)
        if not wait_for(lambda: "listening:" in (folder / "output").read_text(), 20):
            raise SystemExit("gabion does not listen: " + (folder / "output").read_text())

    def stop(self):
        done = super().stop()
        last = [l for l in done["output"].splitlines() if "listen:" in l and "received" in l]
        sealed = re.search(r"seal: (\d+) received, (\d+) passed", last[-1] if last else "")
        done["stored"] = int(sealed[2]) if sealed else 0
        done["counted"] = sum(int(n) for n in re.findall(r"(\d+) (?:kernel_drop|ring_full|stopped)", last[-1] if last else ""))
        # Without the reserve for a full disk.
        done["bytes"] = sum(f.stat().st_size for f in (self.folder / "log").iterdir() if f.is_file() and f.name != "reserve")
        return done


class Rsyslog(Server):
    def __init__(self, folder, tuned=False, forward=None, tls_ca=None):
        self.name = "rsyslog, tuned" if tuned else "rsyslog"
        self.ports = {"udp": free_port(), "tcp": free_port()}
        modules = UNPACKED / "usr/lib/x86_64-linux-gnu/rsyslog"
        config = ["global(workDirectory=\"%s\"" % folder]
        if tls_ca:
            config[0] += " defaultNetstreamDriver=\"ossl\" defaultNetstreamDriverCAFile=\"%s\"" % tls_ca
        config[0] += ")"
        if tuned:
            config += ["module(load=\"imudp\" batchSize=\"256\")", "module(load=\"imptcp\")", "main_queue(queue.size=\"1000000\" queue.dequeueBatchSize=\"2048\")",
                       "input(type=\"imudp\" port=\"%d\" address=\"127.0.0.1\" rcvbufSize=\"4m\")" % self.ports["udp"],
                       "input(type=\"imptcp\" port=\"%d\" address=\"127.0.0.1\")" % self.ports["tcp"]]
        else:
            config += ["module(load=\"imudp\")", "module(load=\"imtcp\")",
                       "input(type=\"imudp\" port=\"%d\" address=\"127.0.0.1\")" % self.ports["udp"],
                       "input(type=\"imtcp\" port=\"%d\" address=\"127.0.0.1\")" % self.ports["tcp"]]
        if forward is None:
            config.append("action(type=\"omfile\" file=\"%s\")" % (folder / "out.log"))
        elif forward[0] == "relp":
            config += ["module(load=\"omrelp\")", "action(type=\"omrelp\" target=\"127.0.0.1\" port=\"%d\")" % forward[1]]
        else:
            tls = " StreamDriver=\"ossl\" StreamDriverMode=\"1\" StreamDriverAuthMode=\"anon\" TCP_Framing=\"octet-counted\"" if forward[0] == "tls" else ""
            config.append("action(type=\"omfwd\" target=\"127.0.0.1\" port=\"%d\" protocol=\"tcp\"%s)" % (forward[1], tls))
        (folder / "rsyslog.conf").write_text("\n".join(config) + "\n")
        argv = [find("rsyslogd"), "-n", "-f", str(folder / "rsyslog.conf"), "-i", str(folder / "pid")]
        if modules.exists():
            argv += ["-M", str(modules)]
        super().__init__(argv, folder, environment())
        if not wait_for(lambda: listening(self.ports["tcp"]), 20):
            raise NotHere("does not listen: " + self.stop()["output"].strip())


class SyslogNg(Server):
    name = "syslog-ng"

    def __init__(self, folder, forward=None, tls_ca=None):
        self.ports = {"udp": free_port(), "tcp": free_port()}
        if forward is None:
            destination = "file(\"%s\")" % (folder / "out.log")
        elif forward[0] == "tls":
            destination = "syslog(\"127.0.0.1\" port(%d) transport(\"tls\") tls(ca-file(\"%s\") peer-verify(optional-untrusted)))" % (forward[1], tls_ca)
        else:
            destination = "network(\"127.0.0.1\" port(%d) transport(\"tcp\"))" % forward[1]
        (folder / "syslog-ng.conf").write_text(f"""@version: 3.35
options {{ flush-lines(100); stats-freq(0); }};
source s {{ network(ip(127.0.0.1) port({self.ports["udp"]}) transport("udp")); network(ip(127.0.0.1) port({self.ports["tcp"]}) transport("tcp")); }};
destination d {{ {destination}; }};
log {{ source(s); destination(d); }};
""")
        argv = [find("syslog-ng"), "-F", "-f", str(folder / "syslog-ng.conf"), "--no-caps",
                "-R", str(folder / "persist"), "-p", str(folder / "pid"), "-c", str(folder / "control")]
        modules = UNPACKED / "usr/lib/syslog-ng"
        found = [d for d in modules.rglob("*") if d.is_dir() and any(d.glob("libafsocket.so"))] if modules.exists() else []
        if found:
            argv += ["--module-path", str(found[0])]
        super().__init__(argv, folder, environment())
        if not wait_for(lambda: listening(self.ports["tcp"]), 20):
            raise NotHere("does not listen: " + self.stop()["output"].strip())


def lines(path):
    if not path.exists():
        return 0
    with open(path, "rb") as f:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: f.read(1 << 20), b""))


def settled(path, wanted, seconds=60):
    """Waits until a server's file has all lines, or no longer grows."""
    last, since = -1, time.monotonic()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        now = lines(path)
        if now >= wanted:
            return now
        if now != last:
            last, since = now, time.monotonic()
        elif time.monotonic() - since > 3:
            return now
        time.sleep(0.2)
    return lines(path)


def send(ports, *options):
    """Runs gabion send to these ports; returns its report as numbers, and how long it took."""
    argv = [GABION, "send", "--json"]
    for transport, port in ports.items():
        argv += [f"--{transport}", f"127.0.0.1:{port}"]
    began = time.monotonic()
    done = subprocess.run(argv + list(options), capture_output=True, text=True)
    wall = time.monotonic() - began
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    report = json.loads(done.stdout)["transports"]
    return {"sent": sum(t["sent"] for t in report), "wall": wall, "transports": report}


def metrics(port):
    """The server's own numbers for Prometheus."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    return {m[1]: float(m[2]) for m in re.finditer(r"^(gabion_\S*) (\S+)$", page, re.M)}


def scratch():
    return tempfile.TemporaryDirectory(dir=os.environ.get("GABION_LAB_DIR"))
