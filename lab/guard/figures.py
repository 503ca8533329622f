#!/usr/bin/env python3
# Puts the figures of a run of the guard's lab into docs/guard.md: python3 lab/guard/figures.py [FIGURES [PART …]]
"""The tables of `docs/guard.md` between its two marks: the thread of 2004 next to ours, the settings of Linux alone, and the bars. They are
written from `target/lab/guard/figures.json`, which `make lab-guard` leaves. Each PART is of a later run with `--only`: its cases and
bars stand in the place of the earlier ones."""
import datetime, json, pathlib, statistics, sys

from judge import fit

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/guard.md"
BEGIN, END = "<!-- lab-guard:", "<!-- end of lab-guard -->"
# What the thread of 2004 published.
THEN = ["2004, as published", "100", "30,000", "", "300", "over 6,000", "", "", "", ""]
COMPANY = ["longest grace periods and the rest", "softirq runs a ms: longest 5 %", "rest", "% of time in packets: longest 5 %", "rest"]
THREAD = ["case", "offered kpps", "route entries", "overflows", "longest grace period ms", "worst user gap ms", "packets in it ms", "packet work %",
          "steal %", "foreign %"]
THREAD_KEYS = [("offered_kpps", 0), ("route_entries", 0), ("route_overflow", 0), ("grace_max", 1), ("gap_ms", 1), ("gap_work_ms", 1), ("share", 1),
               ("steal", 1), ("foreign", 1)]
CASES = ["case", "offered kpps", "packet work %", "user's CPU %", "largest gap ms", "packets in it ms", "protected lost %", "steal %", "foreign %"]
CASE_KEYS = [("offered_kpps", 0), ("share", 1), ("user_cpu", 0), ("gap_ms", 1), ("gap_work_ms", 1), ("protected_lost", 1), ("steal", 1), ("foreign", 1)]


def median(runs, key, digits):
    known = [r[key] for r in fit(runs) if r.get(key) is not None]
    return f"{statistics.median(known):,.{digits}f}" if known else "–"


def row(name, runs, keys):
    refused = next((r["refused"] for r in runs if r.get("refused")), None)
    if refused:
        return [name, f"refused: {refused}", *[""] * (len(keys) - 1)]
    title = name if fit(runs) else f"{name} (not judged)"
    return [title, *(median(runs, key, digits) for key, digits in keys)]


def company(runs, names):
    """What came with the longest 5 % of grace periods, and with the rest: means over the runs."""
    result = []
    for name in names:
        pairs = [r["company"] for r in fit(runs[name]) if r.get("company")]
        if pairs:
            mean = lambda i, j: sum(p[i][j] for p in pairs) / len(pairs)
            result.append([name, f"{mean(0, 0):.2f}", f"{mean(1, 0):.2f}", f"{mean(0, 1):.1f}", f"{mean(1, 1):.1f}"])
    return result


def table(head, rows):
    clean = lambda cell: str(cell).replace("|", "/")
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(clean, line))} |" for line in lines) + "\n"


def text(found, when):
    runs = found["runs"]
    thread = [n for n in runs if n == "calm" or n.startswith(("flood, weight", "throttle-rcu"))]
    others = [n for n in runs if n not in thread and not n.startswith("grace periods")]
    bars = [[b["what"], b["must"], b["aim"], b["figure"] or "–", b["verdict"], b["note"]] for b in found["bars"]]
    judged = [b["verdict"] for b in found["bars"]]
    met = sum(v in ("met", "aimed") for v in judged)
    parts = [
        f"`make lab-guard`, {when}: medians of the runs that could be judged. {met} of {len(judged)} bars are met, {judged.count('missed')} missed, "
        f"{judged.count('not judged')} not judged, {judged.count('skipped')} skipped.\n",
        table(THREAD, [THEN, *(row(n, runs[n], THREAD_KEYS) for n in thread)]),
        table(COMPANY, company(runs, [n for n in thread if n.startswith("flood")])),
        table(CASES, [row(n, runs[n], CASE_KEYS) for n in others]),
        table(["bar", "must", "aim", "measured", "verdict", "note"], bars),
    ]
    return "\n".join(parts)


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "target/lab/guard/figures.json"
    if not path.exists():
        sys.exit(f"{path}: is not there: run make lab-guard first")
    when = datetime.date.fromtimestamp(path.stat().st_mtime).isoformat()
    found = json.loads(path.read_text())
    for part in sys.argv[2:]:
        later = json.loads(pathlib.Path(part).read_text())
        found["runs"].update(later["runs"])
        bars = {b["what"]: {**b, "note": f"{b['note']}; measured again"} for b in later["bars"] if b["verdict"] != "skipped"}
        found["bars"] = [bars.get(b["what"], b) for b in found["bars"]]
    page = PAGE.read_text()
    begin = page.index("\n", page.index(BEGIN)) + 1
    end = page.index(END)
    PAGE.write_text(page[:begin] + "\n" + text(found, when) + "\n" + page[end:])
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
