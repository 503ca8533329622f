#!/usr/bin/env python3
# Random rules and records over captures, compared between Suricata and Gabion.
"""Random rules and records, compared between Suricata and Gabion.

  differential.py SURICATA GABION YAML CAPTURES... [--seed N] [--rules N] [--max N] [--out TSV] [--keep FOLDER]

SURICATA and GABION are programs with Suricata's command line (a link called `suricata` is made to GABION; Suricata's own path
twice compares it with itself). CAPTURES are files or folders (files of 100 bytes to 3 MB that end in .pcap, .cap or .pcapng).

For each capture, up to --max of those for which Suricata logs more than flows:
1. both read it without rules; EVE records of --types are compared as multisets, without the keys in VARIES;
2. --rules random rules are made (random_rules.py);
3. both read it with all these rules at once; a rule is the same when its alerts stand on the same packets (number, source,
   ports; a packet made by the program, as at the end of a flow, has no number);
4. each rule that is not the same is run again alone in both (`--no-alone` leaves it out): "differs alone" is a question about
   one rule; else "ours with others" where Gabion answers otherwise in the set, "theirs with others" where only Suricata does.

What is switched off so that a difference has one cause: the limit of alerts on a packet (15 by default, here 255, the most that
Suricata takes; if it drops alerts all the same, that is reported), random chunk sizes, checksums, HOME_NET (any). A rule that
never fires (COMPANY) goes with each set and each single rule: to Suricata an ACK that releases data is a packet with payload
only if some rule looks at streams. Each rule with bits has names of its own, set by a companion rule right before it;
--share-bits lets all rules of a capture share five names instead. --wide adds fragments, headers, events, datasets, more
transforms (with scripts, too), base64 and buffers, takes a few captures of each protocol and
of packets without one, and prints what of Suricata's lists no rule had; --midstream picks up sessions in the middle, also one-sided ones; --inline runs both with --simulate-ips
and lets some rules drop, pass and reject; --lua adds rules with scripts; --firewall makes a random firewall for each capture, whose
rules are compared as the others are; --alert-limit N compares under a limit of alerts on a packet.

Printed: by kind of rule, what came out; by event type, records equal, Suricata's alone, Gabion's alone; a last line with the
sums. "Of those that fire": rules with an alert in either program. Rules that both refuse count nowhere; one that one program
refuses counts as not the same. --floor SAME,FIRE: exit code 1 if the percentages are lower, or if a program failed.
"""
import argparse
import collections
import json
import os
import random
import re
import shutil
import subprocess
import tempfile

import random_rules
from catalog import Catalog
from wide_rules import WideRules, protos_of

SET = ["stream.reassembly.randomize-chunk-size=no",
       "app-layer.protocols.http.libhtp.default-config.randomize-inspection-sizes=no",
       "vars.address-groups.HOME_NET=any", "vars.address-groups.EXTERNAL_NET=any"]
LUA = ["security.lua.allow-rules=true"]
# Firewall rules have sids from here on.
FIREWALL_SID = 1001
# Parsers that are off by default.
WIDE = ["stats.stream-events=yes"] + ["app-layer.protocols.%s.enabled=yes" % p for p in ("pgsql", "dnp3", "enip", "modbus", "rfb", "mqtt", "sip")]
MIDSTREAM = ["stream.midstream=true", "stream.async-oneside=true"]
VARIES = {"flow_id", "parent_id", "timestamp", "host", "pcap_filename", "stats", "community_id"}
COMPANY = ('alert tcp-stream any any -> any any (msg:"never"; content:"|00 01 02 fd fe ff|never seen on any wire"; '
           'sid:999999;)')
TYPES = "http,dns,tls,ssh,smtp,ftp,ftp_data,fileinfo,flow,anomaly,mqtt,sip,snmp,tftp,dhcp"
SECONDS_MAX = 120


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("suricata")
    p.add_argument("gabion")
    p.add_argument("yaml")
    p.add_argument("captures", nargs="+")
    p.add_argument("--seed", type=int, default=1, help="of order and rules (1)")
    p.add_argument("--rules", type=int, default=150, help="tries for a rule a capture (150; at most 200)")
    p.add_argument("--max", type=int, default=60, help="captures (60)")
    p.add_argument("--out", help="TSV of the differences")
    p.add_argument("--keep", help="folder for the rules of each capture")
    p.add_argument("--share-bits", action="store_true", help="all rules of a capture share five names of bits")
    p.add_argument("--no-alone", action="store_true", help="do not run rules that differ alone")
    p.add_argument("--wide", action="store_true", help="further buffers, transforms, conditions, events and datasets")
    p.add_argument("--midstream", action="store_true", help="pick up sessions in the middle, one-sided ones too")
    p.add_argument("--inline", action="store_true", help="--simulate-ips, and rules that drop, pass and reject")
    p.add_argument("--lua", action="store_true", help="rules with scripts, too")
    p.add_argument("--firewall", action="store_true", help="the firewall mode, with random firewall rules")
    p.add_argument("--alert-limit", type=int, default=255, help="alerts on a packet (255, the most)")
    p.add_argument("--types", default=TYPES, help="event types")
    p.add_argument("--floor", help="least percentages: the same, of those that fire")
    a = p.parse_args()
    if a.rules > 200:
        p.error("--rules: at most 200, or packets reach the limit of alerts")
    return a


class Programs:
    """Both programs, with the options they are compared under."""

    def __init__(self, a):
        self.folder = tempfile.mkdtemp()
        self.yaml = a.yaml
        self.suricata, self.gabion = a.suricata, os.path.join(self.folder, "suricata")
        os.symlink(os.path.abspath(a.gabion), self.gabion)
        sets = SET + ["packet-alert-max=%d" % a.alert_limit] + (MIDSTREAM if a.midstream else []) + (WIDE if a.wide else [])
        if a.lua or a.wide:
            sets += LUA + ["default-rule-path=" + self.folder]
            for name, text in random_rules.SCRIPTS.items():
                with open(os.path.join(self.folder, name), "w") as f:
                    f.write(text)
        self.options = ["-k", "none", "--runmode", "single"] + [x for s in sets for x in ("--set", s)]
        self.options += ["--simulate-ips"] if a.inline or a.firewall else []
        self.is_firewall, self.firewall = a.firewall, []

    def run(self, program, capture, rules):
        """The records a program writes about a capture (None: it failed) and what it says."""
        out, file = os.path.join(self.folder, "out"), os.path.join(self.folder, "rules")
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        with open(file, "w", encoding="utf-8") as f:
            f.write("".join(r + "\n" for r in (rules and [COMPANY, *rules])))
        firewall = []
        if self.is_firewall and self.firewall:
            firewall = ["--firewall-rules-exclusive=" + os.path.join(self.folder, "firewall.rules")]
            with open(firewall[0].partition("=")[2], "w", encoding="utf-8") as f:
                f.write("".join(r + "\n" for r in self.firewall))
        command = [program, "-c", self.yaml, "-S", file, "-r", capture, "-l", out, *self.options, *firewall]
        try:
            q = subprocess.run(command, capture_output=True, timeout=SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return None, "timeout"
        said, records = (q.stderr + q.stdout).decode(errors="replace"), []
        if os.path.exists(os.path.join(out, "eve.json")):
            for line in open(os.path.join(out, "eve.json"), errors="surrogateescape"):
                try:
                    records.append(json.loads(line))
                except ValueError:
                    return None, "not JSON: " + line[:100]
        return (None, f"signal {-q.returncode}") if q.returncode < 0 else (records, said)

    def run_both(self, capture, rules):
        return self.run(self.suricata, capture, rules), self.run(self.gabion, capture, rules)


def alerts_by_sid(records):
    """The places of each rule's alerts, sorted."""
    d = collections.defaultdict(list)
    for e in records or []:
        if e.get("event_type") == "alert":
            place = (e.get("pcap_cnt") or 0, e.get("src_ip"), e.get("src_port"), e.get("dest_port"))
            d[e["alert"]["signature_id"]].append(place)
    return {k: sorted(v, key=lambda q: (q[0], str(q))) for k, v in d.items()}


def refused_sids(said):
    return {int(m) for m in re.findall(r"error parsing signature .*?sid:(\d+);", said)}


def dropped_alerts(records):
    counts = (e["stats"].get("detect", {}).get("alert_queue_overflow", 0) for e in records if e.get("event_type") == "stats")
    return max(counts, default=0)


def normal_text(e):
    """A record as text, without what Suricata's own runs change (timeout or shutdown at the end of a capture, for one)."""
    e = {k: v for k, v in e.items() if k not in VARIES}
    if e.get("event_type") == "flow":
        e["flow"] = {k: v for k, v in e.get("flow", {}).items() if k not in ("age", "alerted", "reason")}
    return json.dumps(e, sort_keys=True)


def find_captures(paths, seed):
    found = []
    for c in paths:
        if os.path.isdir(c):
            found += [os.path.join(d, f) for d, _, fs in os.walk(c) for f in fs if f.endswith((".pcap", ".cap", ".pcapng"))]
        else:
            found.append(c)
    sized = (c for c in found if 100 < os.path.getsize(c) < 3 << 20)
    found = sorted(sized, key=lambda c: (os.path.basename(c), os.path.getsize(c)))
    random.Random(seed).shuffle(found)
    return found


def show_places(x):
    return "%d %s" % (len(x), ",".join(str(q[0]) for q in x[:20]))


class Comparison:
    """What came out so far."""

    def __init__(self, a):
        self.a, self.programs, self.types = a, Programs(a), set(a.types.split(","))
        self.catalog = Catalog(a.suricata) if a.wide else None
        self.kinds, self.events = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
        self.used, self.broken, self.rows, self.protos = 0, 0, [], collections.Counter()

    def is_wanted(self, records):
        """Whether a capture is used: one with more than flows; with --wide one that adds to a protocol (or to packets without any) that
        few captures so far have."""
        if not self.a.wide:
            return any(e.get("event_type") in self.types - {"flow"} for e in records)
        found = protos_of(records) or {"packets"}
        share = {p: 2 if p != "packets" else 4 for p in found}
        if all(self.protos[p] >= share[p] for p in found):
            return False
        self.protos.update(found)
        return True

    def compare_records(self, name, theirs, ours):
        both = []
        for x in (theirs, ours):
            both.append(collections.Counter((e["event_type"], normal_text(e)) for e in x if e.get("event_type") in self.types))
        t, o = both
        for what, c in (("equal", t & o), ("theirs only", t - o), ("ours only", o - t)):
            shown = collections.Counter()
            for (kind, text), n in c.items():
                self.events[kind][what] += n
                shown[kind] += 1
                if what != "equal" and shown[kind] < 3:
                    self.rows.append((name, what, kind, "", "", "", "", text))

    def compare_capture(self, capture):
        a, name = self.a, os.path.basename(capture)
        self.programs.firewall = []
        theirs, _ = self.programs.run(a.suricata, capture, [])
        if not theirs or not self.is_wanted(theirs):
            return
        self.used += 1
        ours, said = self.programs.run(self.programs.gabion, capture, [])
        if ours is None:
            self.rows.append((name, "broken", "", "", said, "", "", ""))
            self.broken += 1
            return
        self.compare_records(name, theirs, ours)
        rules = random_rules.make_rules(capture, theirs, a.seed, a.rules, a.share_bits, a.inline, a.lua)
        firewall = random_rules.make_firewall(random_rules.known_protos(theirs), FIREWALL_SID) if a.firewall else []
        self.programs.firewall = [r for r, _ in firewall]
        if a.keep:
            os.makedirs(a.keep, exist_ok=True)
            with open(os.path.join(a.keep, name + ".rules"), "w") as f:
                f.write("".join(r + "\n" for r, _ in rules + firewall))
        (theirs, their_text), (ours, our_text) = self.programs.run_both(capture, [r for r, _ in rules])
        if theirs is None or ours is None:
            self.rows.append((name, "broken", "", their_text[:200], our_text[:200], "", "", ""))
            self.broken += 1
            return
        if dropped_alerts(theirs):
            self.rows.append((name, "they dropped alerts", "", dropped_alerts(theirs), dropped_alerts(ours), "", "", ""))
        self.compare_rules(capture, rules, firewall, (alerts_by_sid(theirs), alerts_by_sid(ours)),
                           (refused_sids(their_text), refused_sids(our_text)))

    def compare_rules(self, capture, rules, firewall, alerts, refused):
        name = os.path.basename(capture)
        for sid, (text, kind) in [*enumerate(rules, 1), *enumerate(firewall, FIREWALL_SID)]:
            x, y = (d.get(sid, []) for d in alerts)
            is_refused = [sid in r for r in refused]
            if self.catalog:
                self.catalog.add(text, bool(x))
            if not kind:
                continue
            if all(is_refused):
                self.kinds[kind]["refused by both"] += 1
            elif any(is_refused):
                what = "refused by theirs" if is_refused[0] else "refused by ours"
                self.kinds[kind][what] += 1
                self.rows.append((name, what, kind, "", "", "", "", text))
            elif x == y:
                self.kinds[kind]["fired" if x else "silent"] += 1
            else:
                what, x1, y1 = self.compare_alone(capture, rules, sid, y)
                self.kinds[kind][what] += 1
                self.rows.append((name, what, kind, show_places(x), show_places(y), x1, y1, text))

    def compare_alone(self, capture, rules, sid, in_set):
        if self.a.no_alone or sid >= FIREWALL_SID:
            return "differs", "", ""
        alone = [rules[sid - 1][0]]
        if sid > 1 and not rules[sid - 2][1]:
            alone.insert(0, rules[sid - 2][0])
        x, y = (alerts_by_sid(records).get(sid, []) for records, _ in self.programs.run_both(capture, alone))
        what = "differs alone" if x != y else "theirs with others" if y == in_set else "ours with others"
        return what, show_places(x), show_places(y)

    def write_rows(self, path):
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write("capture\twhat\tkind\ttheirs\tours\ttheirs alone\tours alone\trule or record\n")
            f.write("".join("\t".join(map(str, r)) + "\n" for r in self.rows))

    def print_sums(self):
        for k, c in sorted(self.kinds.items()):
            print(f"{k:40s}", ", ".join(f"{n} {w}" for w, n in sorted(c.items())))
        for t, c in sorted(self.events.items()):
            print(f"  {t:10s}", ", ".join(f"{c[w]} {w}" for w in ("equal", "theirs only", "ours only")))
        c = sum(self.kinds.values(), collections.Counter())
        records = sum(self.events.values(), collections.Counter())
        differ = c["differs"] + c["differs alone"] + c["ours with others"] + c["theirs with others"]
        same, one_sided = c["fired"] + c["silent"], c["refused by theirs"] + c["refused by ours"]
        total, firing = same + differ + one_sided, c["fired"] + differ
        shares = 100 * same / max(1, total), 100 * c["fired"] / max(1, firing)
        print(f"{self.used} captures, {self.broken} broken; rules: {same} of {total} the same ({shares[0]:.2f} %), of those that "
              f"fire {c['fired']} of {firing} ({shares[1]:.2f} %; with others only: ours {c['ours with others']}, theirs "
              f"{c['theirs with others']}), {one_sided} refused by one; records: {records['equal']} of "
              f"{sum(records.values())} equal")
        return shares


def main():
    a = parse_arguments()
    c = Comparison(a)
    random_rules.wide = WideRules(c.catalog) if a.wide else None
    for capture in find_captures(a.captures, a.seed):
        if c.used >= a.max:
            break
        c.compare_capture(capture)
        if a.out:
            c.write_rows(a.out)
    if c.catalog:
        c.catalog.print_gaps()
    shares = c.print_sums()
    shutil.rmtree(c.programs.folder)
    floors = [float(x) for x in a.floor.split(",")] if a.floor else [0, 0]
    for share, floor, what in zip(shares, floors, ("the same", "the same of those that fire")):
        if share < floor:
            print(f"differential: {share:.2f} % {what}, the floor is {floor} %")
    raise SystemExit(1 if c.broken or any(s < f for s, f in zip(shares, floors)) else 0)


if __name__ == "__main__":
    main()
