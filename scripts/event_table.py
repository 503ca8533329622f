#!/usr/bin/env python3
# Writes the event table of the crate scap from a description of Falco's table in JSON.
"""Writes the event table of system calls as the crate `scap` reads it.

    scripts/event_table.py CORPUS/scap/event-table.json

writes crates/scap/src/table/{events,flags,calls,ia32,conversion}.tsv. The JSON file describes the event table of
Falco's libs. Columns are separated by tabs, an absent value is `-`; each file begins with the names of its columns.
The crate's build script turns the files into constants. To add a call, add its two rows to events.tsv (a call of
calls.tsv that has no events of its own takes the pair of its name), a recipe to crates/probe/src/syscalls/recipes.tsv,
and for files that have its enter event a row to conversion.tsv.
"""
import json
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parent.parent / "crates/scap/src/table"
LICENCE = (
    "# Data of the event table of Falco's libs, schema {schema}, driver API {api}"
    " (Copyright The Falco Authors, MIT licence); written by scripts/event_table.py"
)


def main():
    table = json.loads(Path(sys.argv[1]).read_text())
    events = table["events"]
    number = {event["const"]: event["type"] for event in events}
    heading = LICENCE.format(schema=table["schema_version"], api=table["api_version"])

    def write(name, columns, rows):
        lines = [heading, "# " + "\t".join(columns)]
        lines += ["\t".join(str(cell) if cell not in ("", None) else "-" for cell in row) for row in rows]
        (OUT / name).write_text("\n".join(lines) + "\n")

    names = flag_names(events, table["info_tables"])
    write(
        "events.tsv",
        ["type", "constant", "name", "category", "source", "flags", "parameters"],
        [
            [
                event["type"],
                event["const"].removeprefix("PPME_").removeprefix("SYSCALL_").removeprefix("SOCKET_"),
                event["name"],
                event["category"],
                ",".join(event["source"]),
                ",".join(event["flags"]),
                " ".join(parameter(p, names) for p in event["params"]),
            ]
            for event in events
        ],
    )
    write(
        "flags.tsv",
        ["table", "names and values"],
        [
            [names[key], " ".join(f"{name}={value}" for name, value in values)]
            for key, values in table["info_tables"].items()
        ],
    )
    write("calls.tsv", CALL_COLUMNS, calls(table, number))
    ia32 = table["syscalls_ia32_to_x86_64"]
    write(
        "ia32.tsv",
        ["ia32", "x86_64", "name"],
        [
            [nr, nr64 if nr64 >= 0 else "-", ia32["unmapped_names"].get(nr)]
            for nr, nr64 in sorted(ia32["map"].items(), key=lambda item: int(item[0]))
        ],
    )
    write(
        "conversion.tsv",
        ["type", "parameters", "action", "to", "sources"],
        [
            [
                row["type"],
                row["nparams"],
                row["action"],
                row.get("to"),
                " ".join(source(s) for s in row.get("params", [])),
            ]
            for row in table["conversion"]
        ],
    )


def flag_names(events, tables):
    """Names each table of flags after the call and the parameter that use it first."""
    names = {}
    for event in events:
        for p in event["params"]:
            key = p.get("info")
            if key and key not in names:
                name = f"{event['name']}_{p['name']}"
                names[key] = name if name not in names.values() else f"{name}_{len(names)}"
    assert set(names) == set(tables), "every table of flags is used"
    return names


def parameter(p, names):
    text = f"{p['name']}:{p['type']}:{p['fmt']}"
    if "info" in p:
        text += f":{names[p['info']]}"
    if "dirfd_param" in p:
        text += f":@{p['dirfd_param']}"
    if "dyn" in p:
        text += ":" + ",".join(f"{d['type']}/{d['fmt']}" for d in p["dyn"])
    return text


def source(s):
    text = s["from"]
    if "index" in s:
        text += f":{s['index']}"
    if s["from"] == "enter":
        text += f"/{s['fallback']}"
    return text


CALL_COLUMNS = ["code", "name", "state", "simple", "x86_64", "aarch64", "flags", "exit", "events"]


def calls(table, number):
    """One row for each code of a call: numbers on both machines, its exit type, all its event types."""
    x86 = {call["sc"]: call for call in table["syscalls_x86_64"]}
    arm = {call["sc"]: call for call in table["syscalls_aarch64"]}
    simple = {name.lower() for name in table["sets"]["simple_consumer_extra"]}
    for row in table["ppm_sc"]:
        code = row["sc"]
        call = x86.get(code) or arm.get(code)
        yield [
            code,
            row["name"],
            "yes" if row["modifies_state"] else None,
            "yes" if row["name"] in simple else None,
            x86.get(code, {}).get("nr"),
            arm.get(code, {}).get("nr"),
            call["flags_raw"] if call else None,
            number[call["exit"]] | 1 if call else None,
            ",".join(str(n) for n in row["event_types"]),
        ]


main()
