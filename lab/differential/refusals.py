#!/usr/bin/env python3
# Random changes of options, random headers, and each buffer and event in all surroundings: which rules Suricata and Gabion refuse.
"""Compares which rules Suricata and Gabion refuse: rules of a suite whose options were changed at random, rules with random headers,
and each buffer with each of some protocols, directions, conditions and transforms, each event with each of some protocols.

Both programs read all rules at once (`suricata -T`, `gabion rules check`), so that thousands take seconds. A rule that only one of them
refuses is printed with the reason.
"""
import argparse
import collections
import glob
import json
import os
import random
import re
import subprocess

from catalog import Catalog

ACTIONS = ["alert", "pass", "drop", "reject", "rejectsrc", "rejectdst", "rejectboth", "Alert", "log"]
PROTOCOLS = ["tcp", "udp", "icmp", "ip", "http", "tls", "dns", "smtp", "tcp-pkt", "tcp-stream", "ftp", "ssh", "smb", "http1", "http2", "ipv4",
             "ip6", "icmpv6", "pkthdr", "TCP", "ftp-data", "dcerpc", "nfs", "sctp", "ether", "quic", "mqtt", "http:request_started",
             "tls:client_hello_done", "tcp:flow_start", "tcp:all", "dns:request_complete", "sip", "websocket", "ldap", "any", "6", "unknown"]
DIRECTIONS = ["->", "->", "->", "->", "<>", "<-", "=>", "-->", ""]
WORDS = ["foo", "relative", "nocase", "any", "both", "!", "0", "", "or", "src", "dst", "by_src", "ip_src", "rawbytes", "big", "string", "dec"]
SIGNS = list("<>=!-:.|/*&^azZ(%")
# What surrounds a buffer in `of_buffers`.
PROTOCOLS_OF_BUFFERS = ["tcp", "udp", "ip", "http", "http1", "http2", "tls", "dns", "smtp", "ftp", "ftp-data", "smb", "dcerpc", "ssh",
                        "nfs", "quic", "sip", "tcp-pkt", "icmp"]
FLOWS = ["", "flow:to_server; ", "flow:to_client; ", "flow:established; ", "flow:to_server,only_stream; ", "flow:to_client,no_stream; "]
CONDITIONS = ['content:"ab";', 'content:!"ab";', "bsize:>4;", 'pcre:"/ab/";', "isdataat:3;", "byte_test:1,>,3,0;", 'content:"ab"; startswith;']
TRANSFORMS = ["", "", "", "to_lowercase; ", "to_md5; ", 'pcrexform:"(ab)"; ', "strip_whitespace; ", "url_decode; ", "dotprefix; "]
# Options that are changed rarely: their values are text for people.
TEXTS = {"msg", "sid", "rev", "gid", "reference", "classtype", "metadata", "target", "priority"}
# Rules with these need files that a suite keeps elsewhere.
FILES = re.compile(r"\b(lua|luaxform|dataset|datarep|filestore|filemd5|filesha1|filesha256)\b")


def split_rule(line):
    """The header of a rule and its options."""
    found = re.match(r"^(.*?)\((.*)\)\s*$", line)
    if not found:
        return None
    options, option, quoted, escaped = [], "", False, False
    for sign in found[2]:
        if sign == ";" and not quoted and not escaped:
            options.append(option.strip())
            option = ""
            continue
        quoted ^= sign == '"' and not escaped
        escaped = sign == "\\" and not escaped
        option += sign
    return found[1], [o for o in options if o]


class Maker:
    """Makes rules from those of a suite."""

    def __init__(self, suite, seed):
        self.random = random.Random(seed)
        self.by_keyword = collections.defaultdict(list)
        for path in sorted(glob.glob(os.path.join(suite, "**", "*.rules"), recursive=True)):
            for line in open(path, encoding="utf-8", errors="replace"):
                self.add(line.strip())

    def add(self, line):
        if not re.match(r"(alert|drop|pass|reject)\s", line) or len(line) > 1500 or FILES.search(line):
            return
        parts = split_rule(line)
        for at, option in enumerate(parts[1] if parts else []):
            keyword = option.split(":", 1)[0].strip()
            if keyword not in TEXTS or self.random.random() < 0.02:
                self.by_keyword[keyword].append((parts, at))

    def number(self, digits):
        ways = ["+" + digits, "-" + digits, "0x" + digits, digits + "k", digits + "m", "0", "1", "255", "256", "65536", "4294967296",
                digits * 2, f" {digits} "]
        return self.random.choice(ways)

    def change(self, value):
        """The value of an option with one change."""
        pick, way = self.random, self.random.randrange(13)
        numbers = list(re.finditer(r"\d+", value))
        if way < 5 and numbers:
            n = pick.choice(numbers)
            return value[:n.start()] + self.number(n[0]) + value[n.end():]
        parts = value.split(",")
        if way == 5:
            parts.insert(pick.randrange(len(parts) + 1), pick.choice(WORDS))
            return ",".join(parts)
        if way in (6, 7, 8) and len(parts) > 1:
            at = pick.randrange(len(parts))
            if way == 6:
                del parts[at]
            elif way == 7:
                parts.insert(at, parts[at])
            else:
                pick.shuffle(parts)
            return ",".join(parts)
        if way == 9:
            return "".join(c.upper() if pick.random() < 0.5 else c for c in value)
        at = pick.randrange(len(value) + 1)
        if way == 10:
            return value[:at] + " " + value[at:]
        if way == 11:
            return value[:at] + value[at + 1:]
        return value[:at] + pick.choice(SIGNS) + value[at:]

    def of_options(self, each):
        """`each` rules a keyword: what was changed, and the rule without its sid."""
        for keyword in sorted(self.by_keyword):
            for _ in range(each):
                (header, options), at = self.random.choice(self.by_keyword[keyword])
                name, colon, value = options[at].partition(":")
                if colon and self.random.random() > 0.03:
                    changed = f"{name}:{self.change(value)}"
                else:
                    changed = self.random.choice([name, f"{name}:{self.random.choice(WORDS)}", name.upper(), name + ":"])
                kept = [changed if n == at else o for n, o in enumerate(options)
                        if n == at or not re.match(r"(sid|gid|rev|reference|classtype|metadata)\s*:", o)]
                yield keyword, changed, f"{re.sub(r'^[a-z]+', 'alert', header)}({'; '.join(kept)}; "

    def address(self, depth=0):
        pick = self.random
        part = lambda: str(pick.choice([0, 1, 10, 192, 255, 256, pick.randrange(256)]))
        plain = ".".join(part() for _ in range(pick.choice([4, 4, 4, 4, 3, 5])))
        way = pick.randrange(14)
        if way < 3:
            return "any"
        if way < 5:
            return pick.choice(["$HOME_NET", "$EXTERNAL_NET", "$HTTP_SERVERS", "!$HOME_NET", "$NO_SUCH"])
        if way == 5:
            return plain + "/" + pick.choice(["8", "24", "32", "33", "0", "", "255.255.0.0", "255.0.255.0", "-1", "x"])
        if way == 6:
            return plain + "-" + plain
        if way == 7:
            return pick.choice(["2001:db8::1", "2001:db8::/32", "::1", "::/0", "fe80::1/129", "2001:db8::1-2001:db8::5", "2001::db8::1"])
        if way == 8:
            return "!" + pick.choice(["any", plain, "!" + plain, "", "[10.0.0.1]"])
        return self.list(self.address, depth) if way < 12 and depth < 3 else plain

    def port(self, depth=0):
        pick = self.random
        way = pick.randrange(14)
        if way < 4:
            return "any"
        if way < 6:
            return pick.choice(["$HTTP_PORTS", "$SSH_PORTS", "!$HTTP_PORTS", "$NO_SUCH"])
        if way == 6:
            return pick.choice(["1:", "1:1024", ":1024", "1024:1", "0:65535", ":", "80:80", "65535:65536", "80-90", "80:90:100", "0x50", "+80"])
        if way == 7:
            return "!" + pick.choice(["any", "80", "!80", "", "[80]", "80:90", ":", "0:65535"])
        return self.list(self.port, depth) if way < 11 and depth < 3 else str(pick.choice([0, 1, 80, 443, 65535, 65536, 99999]))

    def list(self, item, depth):
        pick = self.random
        inner = pick.choice([",", ", "]).join(item(depth + 1) for _ in range(pick.randrange(4)))
        return pick.choice(["", "", "", "!"]) + "[" + inner + pick.choice(["]", "]", "]", ",]", ""])

    def of_headers(self, count):
        """Rules whose headers are random."""
        for _ in range(count):
            pick = self.random
            action = pick.choice(ACTIONS) if pick.random() < 0.2 else "alert"
            protocol = pick.choice(PROTOCOLS) if pick.random() < 0.5 else pick.choice(["tcp", "udp", "ip"])
            direction = pick.choice(DIRECTIONS) if pick.random() < 0.3 else "->"
            ends = ["any"] * 4
            for at in [pick.randrange(4)] if pick.random() < 0.8 else range(4):
                ends[at] = self.port() if at % 2 else self.address()
            header = f"{action} {protocol} {ends[0]} {ends[1]} {direction} {ends[2]} {ends[3]}"
            yield "header", header, header + ' (msg:"x"; '


    def of_buffers(self, catalog, each):
        """Each buffer with protocols, directions, conditions and transforms; each event with protocols."""
        pick = self.random
        for name in catalog.buffers:
            own = sorted(catalog.protos_of(name) - {"doh2"}) or ["ip"]
            for n in range(each):
                protocol = pick.choice(own) if n % 2 else pick.choice(PROTOCOLS_OF_BUFFERS)
                flow, transform, condition = pick.choice(FLOWS), pick.choice(TRANSFORMS), pick.choice(CONDITIONS)
                options = f"{flow}{name}; {transform}{condition}"
                if pick.random() < 0.15:
                    options += f" {pick.choice(catalog.buffers)}; {pick.choice(CONDITIONS)}"
                yield f"buffer {name}", f"{protocol}: {options}", f'alert {protocol} any any -> any any (msg:"x"; {options} '
        for keyword, events in sorted(catalog.events.items()):
            for event in events:
                for _ in range(max(1, each // 8)):
                    protocol, flow = pick.choice(PROTOCOLS_OF_BUFFERS), pick.choice(FLOWS)
                    options = f"{flow}{keyword}:{event};"
                    yield keyword, f"{protocol}: {options}", f'alert {protocol} any any -> any any (msg:"x"; {options} '


def lines_that_suricata_refuses(suricata, yaml, rules, out):
    """Lines of the file with the last message before each refusal."""
    sets = []
    for key, name in (("classification-file", "classification.config"), ("reference-config-file", "reference.config")):
        path = os.path.join(os.path.dirname(os.path.abspath(yaml)), name)
        sets += ["--set", f"{key}={path}"] if os.path.exists(path) else []
    command = [suricata, "-T", "-c", yaml, "-S", rules, "-l", out, *sets]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    refused, said = {}, ""
    for line in (done.stdout + done.stderr).splitlines():
        at = re.search(r"error parsing signature.* from file .* at line (\d+)", line)
        if at:
            refused[int(at[1])] = said
            said = ""
        elif re.match(r"(E:|Error:)", line):
            said = line.split(":", 1)[1].strip()
    if not refused:
        raise SystemExit(f"refusals: Suricata refused no rule: {(done.stdout + done.stderr)[-400:]}")
    return refused


def lines_that_gabion_refuses(gabion, yaml, rules):
    """The same of Gabion."""
    done = subprocess.run([gabion, "rules", "check", "--json", rules, "-c", yaml], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["diagnostics"]
    return {d["line"]: d["message"] for d in found if d["severity"] == "error"}


def main():
    p = argparse.ArgumentParser(prog="refusals.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suricata")
    p.add_argument("gabion")
    p.add_argument("yaml", help="the configuration that both read")
    p.add_argument("suite", help="a folder with files of rules")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--each", type=int, default=40, help="rules a keyword")
    p.add_argument("--headers", type=int, default=6000, help="rules with random headers")
    p.add_argument("--buffers", type=int, default=40, help="rules a buffer")
    p.add_argument("--show", type=int, default=3, help="rules that are printed of a keyword")
    p.add_argument("--floor", type=float, default=0, help="least percentage that both refuse or both load")
    p.add_argument("--out", default="target/lab/refusals")
    o = p.parse_args()
    os.makedirs(o.out, exist_ok=True)
    maker = Maker(o.suite, o.seed)
    made = [*maker.of_options(o.each), *maker.of_headers(o.headers), *maker.of_buffers(Catalog(o.suricata), o.buffers)]
    rules = os.path.join(o.out, "random.rules")
    with open(rules, "w", encoding="utf-8") as f:
        f.writelines(f"{rule}sid:{n};)\n" for n, (_, _, rule) in enumerate(made, 1))
    theirs = lines_that_suricata_refuses(o.suricata, o.yaml, rules, o.out)
    ours = lines_that_gabion_refuses(o.gabion, o.yaml, rules)
    differ = collections.defaultdict(list)
    for n, (keyword, changed, _) in enumerate(made, 1):
        if (n in theirs) != (n in ours):
            who, why = ("Suricata", theirs[n]) if n in theirs else ("Gabion", ours[n])
            differ[keyword].append(f"  {changed[:100]}\n    refused by {who}: {why[:120]}")
    for keyword, found in sorted(differ.items(), key=lambda x: -len(x[1])):
        print(f"{keyword}: {len(found)}")
        print("\n".join(found[:o.show]))
    count = sum(map(len, differ.values()))
    share = 100 * (1 - count / len(made))
    print(f"refusals: {len(made)} rules, {len(theirs)} refused by Suricata, {len(ours)} by Gabion; {count} by one alone: {share:.2f} % the same")
    raise SystemExit(1 if share < o.floor else 0)


if __name__ == "__main__":
    main()
