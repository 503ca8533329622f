#!/usr/bin/env python3
# Makes flow logs of any size from the corpus: it rewrites addresses and times of real logs.
"""Flow logs for benchmarks and experiments, generated from the corpus.

Real lines of Zeek's logs are repeated with other addresses, other ids and other times: one hour of
event time, in order, new hosts for each repetition, so that a million flows come from some
fifteen thousand sources that behave like real hosts. Each flood and scan is of one kind.

  flow_logs.py KIND COUNT FILE_OR_FOLDER      KIND: tsv, json, mixed, ports, hosts, arp, spoofed, established, loud
"""
import ipaddress, json, os, pathlib, random, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(os.environ.get("GABION_CORPUS", ROOT / "../shared/corpus"))
FLOWS = CORPUS / "flows/slips"
START, HOUR = 1_700_000_000, 3600.0
FIELDS = ("ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto service duration orig_bytes resp_bytes conn_state "
          "local_orig local_resp missed_bytes history orig_pkts orig_ip_bytes resp_pkts resp_ip_bytes tunnel_parents").split()
HEADER = ("#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n#fields\t"
          + "\t".join(FIELDS) + "\n")
REST = "\t40000\t%s\t%d\ttcp\t-\t0.0\t0\t0\tS0\tT\tF\t0\tS\t1\t40\t0\t0\t-\n"


def read(path):
    """The text of a log, compressed or not."""
    packed = path.with_name(path.name + ".zst")
    if path.exists():
        return path.read_text()
    return subprocess.run(["zstd", "-dqc", packed], check=True, capture_output=True, text=True).stdout


def json_lines(path):
    return [json.loads(line) for line in read(path).splitlines() if line.startswith("{")]


def real_flows():
    """Flows of the corpus as lists of TSV columns in order of time."""
    flows = []
    for line in read(FLOWS / "test18-malicious-ctu-sme-11-win/zeek-labeled/conn.log.labeled").splitlines():
        columns = line.split("\t")
        if not line.startswith("#") and len(columns) >= len(FIELDS):
            flows.append(columns[:len(FIELDS)])
    flows = flows[::4]
    for line in json_lines(FLOWS / "test9-mixed-zeek-dir/conn.log"):
        value = lambda v: "-" if v is None else ("T" if v else "F") if isinstance(v, bool) else str(v)
        flows.append([value(line.get(f)) for f in FIELDS])
    random.Random(7).shuffle(flows)
    return flows


def mapped(address, copy, hosts):
    """An address for one repetition: private ones stay private, each repetition has its own."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if ip.version != 4 or ip.is_multicast or int(ip) in (0, 0xffffffff) or ip.is_loopback or ip.is_link_local:
        return address
    if ip.is_private:
        number = hosts.setdefault(address, len(hosts)) + copy * 24
        return "10.%d.%d.%d" % (number >> 16 & 255, number >> 8 & 255, (number & 255))
    # Most repetitions share their servers, as hosts of one site do.
    return str(ipaddress.ip_address(int(ip) ^ (copy % 16) << 2))


def spread(n, count):
    return "%.6f" % (START + HOUR * n / count)


def plain(count, out, as_json):
    flows, hosts = real_flows(), {}
    copies = max(1, (count + len(flows) - 1) // len(flows))
    with open(out, "w") as file:
        if not as_json:
            file.write(HEADER)
        n = 0
        for flow in flows:
            rest = flow[6:]
            numbers = {"id.orig_p", "id.resp_p", "orig_bytes", "resp_bytes", "missed_bytes", "orig_pkts",
                       "orig_ip_bytes", "resp_pkts", "resp_ip_bytes", "duration"}
            shown = {k: (v == "T" if v in "TF" else v) if k not in numbers else (float(v) if "." in v else int(v))
                     for k, v in zip(FIELDS[6:], rest) if v != "-"} if as_json else None
            tail = json.dumps(shown, separators=(",", ":"))[1:] if as_json else None
            text = "\t".join(rest)
            for copy in range(copies):
                if n >= count:
                    return
                a, b = mapped(flow[2], copy, hosts), mapped(flow[4], copy, hosts)
                if as_json:
                    file.write('{"ts":%s,"uid":"C%xq%s","id.orig_h":"%s","id.orig_p":%s,"id.resp_h":"%s","id.resp_p":%s,%s\n'
                               % (spread(n, count), n, flow[1][-6:], a, flow[3], b, flow[5], tail))
                else:
                    file.write("%s\tC%xq%s\t%s\t%s\t%s\t%s\t%s\n"
                               % (spread(n, count), n, flow[1][-6:], a, flow[3], b, flow[5], text))
                n += 1


def mixed(count, folder):
    """All logs of one folder, repeated; `count` is the number of records in all logs."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    source, hosts = FLOWS / "test9-mixed-zeek-dir", {}
    logs = {}
    for name in sorted({p.name.removesuffix(".zst") for p in source.iterdir()}):
        lines = [l for l in json_lines(source / name) if "ts" in l]
        if name.removesuffix(".log") in ("conn", "dns", "http", "ssl", "files", "notice", "software", "smtp", "dhcp"):
            logs[name] = lines
    total = sum(len(l) for l in logs.values())
    copies = max(1, count // total)
    least = min(l["ts"] for lines in logs.values() for l in lines)
    most = max(l["ts"] for lines in logs.values() for l in lines)
    for name, lines in logs.items():
        with open(folder / name, "w") as file:
            made = []
            for line in lines:
                line = dict(line)
                at = (line.pop("ts") - least) / max(most - least, 1)
                uid = line.pop("uid", None)
                ends = {k: line.pop(k) for k in ("id.orig_h", "id.resp_h", "host") if k in line
                        and not (k == "host" and name == "http.log")}
                tail = json.dumps(line, separators=(",", ":"))[1:]
                for copy in range(copies):
                    ts = START + at * (HOUR - 10) + 10.0 * copy / copies
                    head = '{"ts":%.6f' % ts
                    if uid:
                        head += ',"uid":"%s%x"' % (uid, copy)
                    for k, v in ends.items():
                        head += ',"%s":"%s"' % (k, mapped(v, copy, hosts))
                    made.append((ts, head + "," + tail + "\n"))
            made.sort(key=lambda m: m[0])
            file.writelines(text for _, text in made)
    return copies * total


def address(n):
    """Spoofed sources: all different, unordered, none private or multicast."""
    n = (n * 2654435761 + 12345) % (1 << 29) + (1 << 29)
    return "%d.%d.%d.%d" % (n >> 24, n >> 16 & 255, n >> 8 & 255, n & 255)


# Flows of a flood of new sources: port, name of the service, duration, bytes sent and received.
SERVICES = [(443, "ssl", "1.0", 500, 4000), (80, "http", "0.4", 300, 9000), (443, "-", "2.0", 700, 900), (22, "ssh", "3.0", 2000, 3000),
            (80, "-", "0.2", 90, 100), (4444, "-", "9.0", 400, 50), (25, "smtp", "1.5", 900, 600), (8080, "-", "0.1", 120, 800)]
ESTABLISHED = "\t40000\t%s\t%d\ttcp\t%s\t%s\t%d\t%d\tSF\tF\tT\t0\tShADadFf\t6\t%d\t5\t%d\t-\n"


# Hosts of the site with findings in the flood of loud sources: seconds between flows, source, destination, port, and the rest.
PLANTED = [
    (60, "192.168.1.50", "198.51.100.34", 8443, "\ttcp\t-\t0.1\t100\t100\tSF\tT\tF\t0\tShADadFf\t5\t300\t5\t300\t-\n"),
    (36, "192.168.1.66", "192.168.1.9", None, "\ttcp\t-\t0.0\t0\t0\tS0\tT\tT\t0\tS\t1\t40\t0\t0\t-\n"),
    (20, "192.168.1.77", "198.51.100.35", 23, "\ttcp\t-\t0.0\t0\t0\tREJ\tT\tF\t0\tSr\t1\t40\t1\t40\t-\n"),
    (300, "192.168.1.88", "198.51.100.36", 443, "\ttcp\tssl\t9.0\t90000000\t4000\tSF\tT\tF\t0\tShADadFf\t60000\t92000000\t5\t4200\t-\n"),
]
LOUD_PORTS = [4444, 6667, 23, 80, 443, 8443, 22, 53, 31337, 1, 2, 3]


def loud(count, out):
    """Six hours of constantly new sources with twelve loud records each, and four hosts of the site among them."""
    hours, due = 6 * HOUR, [0.0] * len(PLANTED)
    with open(out, "w") as file:
        file.write(HEADER)
        for n in range(count):
            at = hours * n / count
            for i, (every, src, dst, port, rest) in enumerate(PLANTED):
                while due[i] <= at:
                    number = int(due[i] // every)
                    file.write("%.6f\tP%d.%d\t%s\t%d\t%s\t%d%s" % (START + due[i], i, number, src, 30000 + number, dst, port or 1 + number, rest))
                    due[i] += every
            sent, lasted, state = (10 ** 9 if n % 12 == 0 else 10), (2000 if n % 12 == 1 else 1), "SF" if n % 2 else "S0"
            file.write("%.6f\tC%x\t%s\t40000\t93.%d.%d.%d\t%d\ttcp\t-\t%d\t%d\t100\t%s\tF\tF\t0\tShADadFf\t5\t300\t5\t300\t-\n"
                       % (START + at, n, address(n // 12), n % 7, n % 250, n % 11, LOUD_PORTS[n % 12], lasted, sent, state))


def flood(kind, count, out):
    if kind == "loud":
        loud(count, out)
        return
    with open(out, "w") as file:
        if kind == "arp":
            for n in range(count):
                host = "192.168.%d.%d" % (n >> 8 & 255, n & 255)
                file.write('{"ts":%s,"operation":"request","src_mac":"50:5b:c2:db:c3:%02x","dst_mac":"ff:ff:ff:ff:ff:ff",'
                           '"orig_h":"192.168.1.%d","resp_h":"%s","orig_hw":"50:5b:c2:db:c3:%02x",'
                           '"resp_hw":"00:00:00:00:00:00"}\n' % (spread(n, count), n & 3, n & 3, host, n & 3))
            return
        file.write(HEADER)
        for n in range(count):
            head = "%s\tC%x\t" % (spread(n, count), n)
            if kind == "ports":
                file.write(head + "10.0.0.5" + REST % ("10.9.0.%d" % (1 + (n >> 16)), n & 65535 or 1))
            elif kind == "hosts":
                file.write(head + "10.0.0.5" + REST % ("%d.%d.%d.%d" % (20 + (n >> 24), n >> 16 & 255, n >> 8 & 255, n & 255), 445))
            elif n % 5000 == 77:
                # The planted scanner: one host at a time, hidden in the flood.
                file.write(head + "203.0.113.9" + REST % ("198.51.%d.%d" % (n // 5000 >> 8 & 255, n // 5000 & 255), 23))
            elif kind == "established":
                port, service, duration, sent, received = SERVICES[n % len(SERVICES)]
                server = "192.0.2.%d" % (n // len(SERVICES) % 50 + 1)
                file.write(head + address(n) + ESTABLISHED % (server, port, service, duration, sent, received, sent + 280, received + 240))
            else:
                file.write(head + address(n) + REST % ("192.0.2.80", 80))


def main():
    kind, count, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if kind in ("tsv", "json"):
        plain(count, out, kind == "json")
    elif kind == "mixed":
        print(mixed(count, out))
    else:
        flood(kind, count, out)


if __name__ == "__main__":
    main()
