# The report of the guard's lab: sections with their question, charts, tables, and the table of bars.
"""Figures are medians of the runs that can be judged; a maximum is taken within a run, then the median over runs."""
import os

from report import Report, bars

# What the thread of 2004 published.
PENDING_2004, GRACE_2004_MS, GAP_2004_MS = 30_000, 300, 6000


def build(all_runs, only, judged, median, budget, seconds):
    kernel = os.uname()
    page = Report(
        "The guard in a flood",
        [f"A router in namespaces of this machine, flooded as in the thread of March 2004; {kernel.sysname} {kernel.release}, {os.cpu_count()} CPUs, "
         f"budget {budget} %, medians of runs of 3 s in a shuffled order. The lab took {seconds / 60:.0f} minutes.",
         "veth is not a network card: XDP runs on the sender's CPU here, so that a drop costs the victim nothing; a card has hardware queues and "
         "coalesced interrupts, and pays 20 to 120 ns a drop on the CPU of its queue."],
        "make lab-guard", "lab/guard")
    figure = lambda name, key, unit="", digits=1: shown(median(all_runs.get(name) or [], key), unit, digits)
    thread(page, all_runs, median, figure)
    settings(page, all_runs, median, figure)
    guard(page, all_runs, median, figure)
    graces(page, all_runs)
    if only.get("causes"):
        named(page, only["causes"])
    if only.get("fresh"):
        unseen(page, only["fresh"])
    verdicts = [b.verdict for b in judged]
    page.section("The bars", "What the guard has to reach, and what it aims for.", ["what", "must", "aim", "measured", "verdict", ""],
                 [[b.what, b.must, b.aim, b.figure, b.verdict, b.note] for b in judged],
                 figure=f"{sum(v in ('met', 'aimed') for v in verdicts)} of {len(verdicts)}",
                 answer=f"{verdicts.count('missed')} missed, {verdicts.count('not judged')} not judged, {verdicts.count('skipped')} skipped.",
                 text_columns=(1, 2, 3, 4, 5))
    return page


def shown(value, unit="", digits=1):
    return "–" if value is None else f"{value:,.{digits}f}{unit}"


def present(all_runs, names):
    return [name for name in names if all_runs.get(name)]


def state(runs):
    """A remark where runs were refused or can't be judged."""
    for run in runs:
        if run.get("refused"):
            return f"refused: {run['refused']}"
    bad = [r["not_judged"] for r in runs if r.get("not_judged")]
    return f"{len(bad)} of {len(runs)} not judged: {bad[0]}" if bad else ""


COMMON = [("offered kpps", "offered_kpps", 0), ("packet work %", "share", 1), ("in ksoftirqd", "ksoftirqd", 1), ("user's CPU %", "user_cpu", 0),
          ("largest gap ms", "gap_ms", 1), ("packets in it ms", "gap_work_ms", 1), ("protected lost %", "protected_lost", 1),
          ("p99 ms", "protected_p99_ms", 1), ("steal %", "steal", 1), ("foreign %", "foreign", 1)]


def rows(all_runs, names, figure, columns=COMMON):
    return [[name, *(figure(name, key, "", digits) for _, key, digits in columns), state(all_runs[name])] for name in names]


def head(columns=COMMON):
    return ["case", *(title for title, _, _ in columns), ""]


def thread(page, all_runs, median, figure):
    names = present(all_runs, ["calm", *(f"flood, weight 1:{w}{g}" for w in (1, 5, 60) for g in ("", ", guard")), "throttle-rcu (rcutree.blimit 4)"])
    if not names:
        return
    of = lambda name, key: median(all_runs.get(name) or [], key)
    columns = [("offered kpps", "offered_kpps", 0), ("route entries", "route_entries", 0), ("overflows", "route_overflow", 0),
               ("longest grace period ms", "grace_max", 1), ("worst user gap ms", "gap_ms", 1), ("packets in it ms", "gap_work_ms", 1),
               ("user's CPU %", "user_cpu", 0), ("packet work %", "share", 1), ("steal %", "steal", 1), ("foreign %", "foreign", 1)]
    plain, guarded = [n for n in names if n.startswith("flood") and "guard" not in n], [n for n in names if n.endswith(", guard")]
    worst = max((of(n, "gap_ms") or 0 for n in plain), default=0)
    with_guard = max((of(n, "gap_ms") or 0 for n in guarded), default=0)
    page.section("The thread of 2004", "A flood to random destinations is forwarded. Does it still starve user programs and grace periods?", head(columns),
                 [*rows(all_runs, names, figure, columns),
                  ["published in 2004", "100", f"{PENDING_2004:,}", "within seconds", str(GRACE_2004_MS), f"> {GAP_2004_MS:,}", *["–"] * 5, ""]],
                 charts=[bars("Worst user gap", "ms", [(n.replace("flood, ", ""), of(n, "gap_ms")) for n in names]),
                         bars("Worst user gap in 2004", "ms", [("flood", GAP_2004_MS)], True),
                         bars("Longest grace period", "ms", [(n.replace("flood, ", ""), of(n, "grace_max")) for n in names]),
                         bars("Longest grace period in 2004", "ms", [("flood", GRACE_2004_MS)], True)],
                 figure=f"{worst:.0f} → {with_guard:.0f} ms", answer="The worst gap of a user program, without and with the guard. The route cache is gone since 2012, so "
                 f"nothing waits there{'; with a small weight user programs starve as in 2004' if worst > 200 else ''}.")
    accompany(page, all_runs, [n for n in plain if all_runs.get(n)])


def accompany(page, all_runs, names):
    rows_of = []
    for name in names:
        pairs = [r["company"] for r in all_runs[name] if not r.get("refused") and r.get("company")]
        if pairs:
            mean = lambda i, j: sum(p[i][j] for p in pairs) / len(pairs)
            rows_of.append([name, f"{mean(0, 0):.2f}", f"{mean(1, 0):.2f}", f"{mean(0, 1):.1f}", f"{mean(1, 1):.1f}"])
    if not rows_of:
        return
    page.section("Always accompanied", "In 2004 each long grace period came with very many short softirqs. The longest 5 % of grace periods against the rest:",
                 ["case", "softirq runs a ms: longest", "rest", "% of time in packets: longest", "rest"], rows_of,
                 figure=f"{rows_of[0][1]} : {rows_of[0][2]}", answer="Runs of NET_RX on the victim's CPU in each ms of a grace period.")


def settings(page, all_runs, median, figure):
    names = present(all_runs, ["none", "netdev_budget 300 → 64", "netdev_budget_usecs → 1000", "dev_weight 64 → 16", "netdev_max_backlog 1000 → 100",
                               "ksoftirqd at nice 19", "threaded NAPI", "RPS off: the sender's CPU pays"])
    if not names:
        return
    of = lambda name, key: median(all_runs.get(name) or [], key)
    none = of("none", "share") or 0
    freed = [n for n in names[1:] if of(n, "share") is not None and of(n, "share") < 0.8 * none]
    lossy = [n for n in freed if (of(n, "protected_lost") or 0) > 1]
    refused = [n for n in names if any(r.get("refused") for r in all_runs[n])]
    page.section("Settings of Linux alone", "Which setting of a present kernel gives user programs their time back, and what does it cost the protected flow?",
                 head(), rows(all_runs, names, figure), figure=f"{len(freed)} of {len(names) - 1}",
                 answer=f"Settings that free a fifth of the packet work on this CPU or more: {', '.join(freed) or 'none'}. Of these, lost more than 1 % of the "
                        f"protected flow: {', '.join(lossy) or 'none'}. Refused: {', '.join(refused) or 'none'}.")


def guard(page, all_runs, median, figure):
    names = present(all_runs, ["calm, guard", "flood", "flood, guard", "old flows, guard", "old flows, weight 1:5, guard", "old flows, weight 1:60, guard", "bursts", "bursts, guard", "live frames", "live frames, guard",
                               "flood, generic XDP", "flood, threaded NAPI", "flood on another interface", "the guard at weight 1:60",
                               "the guard at weight 1:60, no real time", "the guard at weight 1:60, no priority"])
    if not names:
        return
    of = lambda name, key: median(all_runs.get(name) or [], key)
    innocent = [("established lost %", "established_lost", 1), ("new flows lost %", "new_lost", 1), ("any 200 ms %", "share_200ms", 1)]
    page.section("The guard", "Does packet work stay within its budget, and who pays?", head(COMMON + innocent), rows(all_runs, names, figure, COMMON + innocent),
                 charts=[bars("Packet work of the victim's CPU", "%", [(n, of(n, "share")) for n in names]),
                         bars("Protected flow lost", "%", [(n, of(n, "protected_lost")) for n in names])],
                 figure=f"{shown(of('flood', 'share'))} → {shown(of('flood, guard', 'share'))} %", answer="Packet work in the flood, without and with the guard.")


def graces(page, all_runs):
    names = present(all_runs, ["grace periods, flood", "grace periods, flood, guard"])
    rows_of = []
    for name in names:
        runs = [r for r in all_runs[name] if not r.get("refused")]
        for part in ("calm", "flood"):
            pooled = sorted(v for r in runs for v in r["grace"][part])
            if pooled:
                at = lambda q: pooled[min(len(pooled) - 1, int(len(pooled) * q))]
                rows_of.append([f"{name}: {part}", len(pooled), *(f"{at(q):.1f}" for q in (0.5, 0.95, 0.99)), f"{pooled[-1]:.1f}"])
    if rows_of:
        page.section("Grace periods", "One membarrier each 5 ms; calm and flood in the same runs of 10 s.", ["", "samples", "p50 ms", "p95", "p99", "max"], rows_of,
                     figure=f"{rows_of[-1][3]} ms", answer="The 95th percentile in the guarded flood.")


def named(page, checks):
    rows_of = []
    for (wanted, accepted), name, found in checks:
        cause = found.get("cause") or "–"
        verdict = "skipped" if found.get("refused") else "right" if found.get("cause") in accepted else "wrong"
        rows_of.append([name, wanted, cause, verdict, shown(found.get("cause_ms"), " ms", 0), found.get("refused") or found.get("line") or ""])
    right = sum(r[3] == "right" for r in rows_of)
    page.section("Causes", "Is the cause named, and is it the right one?", ["case", "expected", "named", "", "after", "the line"], rows_of,
                 figure=f"{right} of {len(rows_of)}", answer="Causes that are named right.", text_columns=(1, 2, 3, 5))


def unseen(page, checks):
    rows_of = []
    for (accepted,), name, found in checks:
        report = found.get("report") or {}
        verdict = "skipped" if found.get("refused") else "right" if report.get("cause") in accepted else "wrong"
        rows_of.append([name, " or ".join(a or "nothing" for a in accepted), report.get("cause") or "nothing", verdict, report.get("incidents", ""),
                        found.get("refused") or found.get("line") or ""])
    page.section("Fresh recordings", "The diagnosis was made on 16 recordings. Is it right on floods that it never saw?",
                 ["case", "expected", "guard report", "", "incidents", "the line"], rows_of,
                 figure=f"{sum(r[3] == 'right' for r in rows_of)} of {len(rows_of)}", answer="Judged right without tuning.", text_columns=(1, 2, 3, 5))
