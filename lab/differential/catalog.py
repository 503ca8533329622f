"""Suricata's buffers, frames, transforms and events, as lists to make rules from, and what of them a run made and saw alert.

Buffers, frames and transforms are those that Suricata itself lists (`--list-keywords=csv`, `--list-app-layer-frames`); the protocols of
buffers and the names of events are those of this repository's tables.
"""
import collections
import os
import re
import subprocess

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates")
TABLE = os.path.join(ROOT, "rules", "tests", "support", "catalog.tsv")
EVENT_SOURCES = {"decode-event": os.path.join(ROOT, "record", "src", "decoder_event.rs"),
                 "stream-event": os.path.join(ROOT, "record", "src", "stream_event.rs")}
# Events of `app-layer-event` that belong to no protocol.
SEARCH_EVENTS = ["applayer_mismatch_protocol_both_directions", "applayer_wrong_direction_first_data",
                 "applayer_detect_protocol_only_one_direction", "applayer_proto_detection_skipped",
                 "applayer_no_tls_after_starttls", "applayer_unexpected_protocol"]
# Sticky buffers that need something behind them, or are no buffers alone.
NO_BUFFERS = {"dataset", "frame"}


class Catalog:
    """What Suricata lists, and what was made and alerted so far."""

    def __init__(self, suricata):
        lines = [x.split(";") for x in list_output(suricata, "--list-keywords=csv")]
        features = {x[0]: x[3].split(":") for x in lines if len(x) > 4}
        self.buffers = sorted(k for k, f in features.items() if "sticky buffer" in f and k not in NO_BUFFERS)
        self.transforms = sorted(k for k, f in features.items() if "transform" in f)
        self.frames = sorted({x.split()[-1] for x in list_output(suricata, "--list-app-layer-frames") if x.startswith(("tcp:", "udp:"))})
        rows = [x.rstrip("\n").split("\t") for x in open(TABLE, encoding="utf-8") if not x.startswith("#")]
        self.protos = {x[1]: sorted({re.split("[<>]", hook)[0] for hook in x[10].split()}) for x in rows if x[0] == "buffer"}
        self.events = {"app-layer-event": sorted([f"{x[1].replace('http1', 'http')}.{x[2]}" for x in rows if x[0] == "event"] + SEARCH_EVENTS)}
        for keyword, path in EVENT_SOURCES.items():
            self.events[keyword] = sorted(set(re.findall(r'= "([a-z0-9_.]+)"', open(path, encoding="utf-8").read())))
        self.made, self.alerted = collections.Counter(), collections.Counter()

    def protos_of(self, name):
        """The protocols of a buffer as records name them; none: it is one of packets."""
        return {"http" if p == "http1" else p for p in self.protos.get(name, ())}

    def names_in(self, rule):
        """All buffers, frames, transforms and events that a rule names."""
        body = rule[rule.index("("):]
        found = {x for x in re.findall(r"(?<=[ (])([a-z0-9_.]+)(?:;|:)", body) if x in self.all_keywords()}
        found |= {"frame:" + x for x in re.findall(r"frame:([a-z0-9_.]+);", body)}
        return found | {":".join(x) for x in re.findall(r"((?:app-layer|decode|stream)-event):([a-z0-9_.]+);", body)}

    def all_keywords(self):
        return {*self.buffers, *self.transforms}

    def add(self, rule, has_alerts):
        for name in self.names_in(rule):
            self.made[name] += 1
            self.alerted[name] += has_alerts

    def print_gaps(self):
        """The names that no rule had, and those whose rules never alerted."""
        groups = {"buffers": self.buffers, "transforms": self.transforms, "frames": ["frame:" + x for x in self.frames]}
        groups.update({k: [f"{k}:{x}" for x in l] for k, l in self.events.items()})
        for what, names in groups.items():
            never_made = [x for x in names if not self.made[x]]
            silent = [x for x in names if self.made[x] and not self.alerted[x]]
            print(f"{what}: {len(names)}, {len(never_made)} never made, {len(silent)} never alerted")
            for said, some in (("never made", never_made), ("never alerted", silent)):
                if some:
                    print(f"  {said}:", " ".join(x.partition(":")[2] or x for x in some))


def list_output(program, option):
    q = subprocess.run([program, option], capture_output=True, timeout=120, check=False)
    return q.stdout.decode(errors="replace").splitlines()
