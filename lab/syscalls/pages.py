# The report of the system call lab: the three steps with the published figures, costs of a call, and the bars.
"""Requests per second are medians of the runs that can be judged, and of their share of the bare run of the same round."""
import os, statistics

from report import Report, bars

# Published with the proposal (8 CPUs, Linux 6.5, enter and exit events): requests/s, ns of a program call, events and bytes.
PROPOSAL = {"bare": 64_600, "step 1": (56_800, 64), "step 2": (48_400, 116), "step 3": (42_000, 349)}
# Measured earlier with Falco's newer probe of exit events alone, on a machine as this one: % of bare, ns above an empty program.
FALCO = {"step 1": (89, "13–17"), "step 2": (74, "221"), "step 3": (71, "404")}
SHARES = {"step 1": (86, 93), "step 2": (71, 82), "step 3": (68, 80)}
NANOSECONDS = {"step 1": (15, None), "step 2": (221, 140), "step 3": (404, 250)}
RECORD = {"step 2": (100, 60), "step 3": (64, 45)}
CALL = {"a call of step 1": (15, None), "fixed-size record": (100, 80), "missing-file open, merged": (600, 450), "open + close with the kernel's path": (1200, 900)}


def fit(runs):
    return [r for r in runs or [] if not r.get("not_judged")]


# What does not depend on what else the machine does.
COUNTS = ("events", "record_bytes", "shed", "calls")


def median(runs, key):
    values = [r[key] for r in (runs or [] if key in COUNTS else fit(runs)) if r.get(key) is not None]
    return statistics.median(values) if values else None


def shown(value, digits=0, unit=""):
    return "–" if value is None else f"{value:,.{digits}f}{unit}"


def judged(value, must, aim, is_least=False):
    """A verdict on a figure; `aim` None is the noise of the measurement."""
    if value is None:
        return "not judged"
    good = (lambda bar: value >= bar) if is_least else (lambda bar: value <= bar)
    if aim is not None and good(aim):
        return "aimed"
    return "met" if good(must) else "missed"


def build(results, steps, kinds, o, seconds):
    kernel = os.uname()
    page = Report(
        "Exit events only", [f"redis-benchmark on {kernel.sysname} {kernel.release}, {os.cpu_count()} CPUs; medians of {o.rounds} interleaved rounds of {o.requests:,} "
                             f"requests a test. The lab took {seconds / 60:.0f} minutes.",
                             "The published figures are of another machine with 8 CPUs: their ratios can be compared, their requests per second can't."],
        "make lab-syscalls", "lab/syscalls")
    rounds, table = results["rounds"], []
    short = lambda step: step.split(":")[0]
    bare = median(rounds.get((None, "bare")), "requests_s")
    rows = [["bare", "", shown(bare), "100", shown(median(rounds.get((None, "bare")), "server_cpu"), 2), "", "", "", "", shown(PROPOSAL["bare"]), "100", ""]]
    for step in steps:
        for kind in kinds:
            runs = rounds.get((step, kind)) or []
            theirs = PROPOSAL[short(step)][0] if kind != "ours" else None
            rows.append([step, kind, shown(median(runs, "requests_s")), shown(median(runs, "of_bare"), 1), shown(median(runs, "server_cpu"), 2),
                         shown(median(runs, "reader_cpu"), 2), shown(median(runs, "events")), shown(median(runs, "record_bytes")), shown(median(runs, "shed")),
                         shown(theirs), shown(100 * theirs / PROPOSAL["bare"], 0) if theirs else str(FALCO[short(step)][0]),
                         "" if len(fit(runs)) == len(runs) else f"{len(runs) - len(fit(runs))} of {len(runs)} not judged"])
    page.section("Three steps", "What does tracing cost a server, with exit events alone and with a second program at sys_enter?",
                 ["step", "programs", "requests/s", "% of bare", "server CPU s", "reader CPU s", "events", "bytes each", "shed", "published", "% of bare", ""], rows,
                 charts=[bars("Ours", "% of bare", [(f"{short(s)}{'' if k == 'ours' else ' + sys_enter'}", median(rounds.get((s, k)), "of_bare")) for s in steps for k in kinds]),
                         bars("Enter and exit events, the proposal", "% of bare", [(s, 100 * PROPOSAL[s][0] / PROPOSAL["bare"]) for s in SHARES], True),
                         bars("Falco, exit events", "% of bare", [(s, FALCO[s][0]) for s in SHARES], True)],
                 figure=shown(median(rounds.get((list(steps)[2], "ours")), "of_bare"), 0, " %"), answer="Requests per second of step 3, of those without programs.",
                 note="Published: the proposal's figures in rows with sys_enter, Falco's newer ones in the others.", text_columns=(1, 11))
    for step in steps:
        must, aim = SHARES[short(step)]
        value = median(rounds.get((step, "ours")), "of_bare")
        table.append((f"{short(step)}: requests/s of bare", f"≥ {must} %", f"{aim} %", shown(value, 1, " %"), judged(value, must, aim, True)))
    statistics_rows(page, results, steps, table, short)
    for name, (must, aim) in RECORD.items():
        step = next(s for s in steps if s.startswith(name))
        value = median(rounds.get((step, "ours")), "record_bytes")
        table.append((f"{name}: bytes of a record", f"≤ {must}", str(aim), shown(value), judged(value, must, aim)))
        runs = rounds.get((step, "ours")) or []
        calls = [r["events"] / max(r["calls"] - r["shed"], 1) for r in runs]
        one = statistics.median(calls) if calls else None
        table.append((f"{name}: records for each traced call", "1", "", shown(one, 3), judged(one, 1.0, None)))
    cost_rows(page, results, table)
    live_rows(page, results, table)
    if results.get("mix"):
        found = list(results["mix"].items())[:15]
        page.section("Mix of calls", "Which of the fifteen calls do redis and its benchmark make here?", ["call", "% of all"], [[n, f"{100 * v:.2f}"] for n, v in found],
                     charts=[bars("Calls", "%", [(n, 100 * v) for n, v in found[:8]])], figure=found[0][0] if found else "–",
                     answer="The most frequent one. Clocks are read without a system call here, which was most of the proposal's traffic.")
    million_rows(page, results, short)
    verdicts = [bar[4] for bar in table]
    page.section("The bars", "What has to be reached, and what is aimed for.", ["what", "must", "aim", "measured", "verdict"], table,
                 figure=f"{sum(v in ('met', 'aimed') for v in verdicts)} of {len(verdicts)}",
                 answer=f"{verdicts.count('missed')} missed, {verdicts.count('not judged')} not judged, {verdicts.count('skipped')} skipped.", text_columns=(1, 2, 3, 4))
    return page, table


def statistics_rows(page, results, steps, table, short):
    found, rows = results.get("statistics") or {}, []
    for step in steps:
        must, aim = NANOSECONDS[short(step)]
        figure = found.get(step)
        value = figure["above"] if figure else None
        verdict = "not judged" if figure and figure.get("not_judged") else judged(value, must, aim if aim or not figure else figure["noise"])
        table.append((f"{short(step)}: ns an exit above an empty program", f"≤ {must}", str(aim or "noise"), shown(value, 1), verdict))
        if figure:
            rows.append([step, f"{figure['ours']:.1f}", f"{figure['empty']:.1f}", f"{value:.1f}", f"{figure['noise']:.1f}", f"{figure['enter']:.1f}", f"{figure['runs']:,.0f}",
                         FALCO[short(step)][1], PROPOSAL[short(step)][1]])
    if rows:
        page.section("In the kernel", "How long does the program at sys_exit take, by the kernel's own statistics?",
                     ["step", "ns an exit", "empty program", "above it", "noise", "an empty sys_enter", "exits", "Falco above empty", "proposal, enter or exit"], rows,
                     figure=f"{rows[-1][3]} ns", answer="The mean of step 3, above an empty program in the same run.")


def cost_rows(page, results, table):
    rows = []
    for name, (must, aim) in CALL.items():
        figure = (results.get("costs") or {}).get(name)
        value = figure["ns"] if figure else None
        noise = figure["noise"] if figure else 0
        verdict = "not judged" if figure and figure.get("not_judged") else judged(value, must, noise if aim is None else aim)
        table.append((f"{name}, ns above empty", f"≤ {must}", str(aim or "noise"), shown(value, 1), verdict))
        if figure:
            rows.append([name, f"{value:.1f}", f"{figure['least']:.1f}", f"{noise:.1f}", f"{figure['empty']:.1f}"])
    if rows:
        page.section("A call", "CPU time of one call in a tight loop, above an empty program at sys_exit, in turn.",
                     ["", "ns above empty", "least against least", "noise: empty against empty", "the call with an empty program"], rows,
                     figure=f"{rows[0][1]} ns", answer="What a call costs that nobody asked for.")


def live_rows(page, results, table):
    live, rows = results.get("live") or {}, []
    for name in ("stable rules", "all rules"):
        figure = live.get(name) or {"skipped": "no rules"}
        if figure.get("skipped"):
            table.append((f"step 3 with {name}: shed", "0", "", figure["skipped"][:60], "skipped"))
            continue
        shed = figure["shed"]
        table.append((f"step 3 with {name}: shed", "0", "", shown(shed), "not judged" if shed is None or figure.get("not_judged") else judged(shed, 0, None)))
        rows.append([name, shown(figure["requests_s"]), shown(figure.get("events_s")), f"{figure['cpu']:.2f}", shown(shed)])
    late = live.get("latency") or {"skipped": "not run"}
    if late.get("skipped"):
        table.append(("call to alert, p99, in step 3", "≤ 100 ms", "20 ms", late["skipped"][:60], "skipped"))
    else:
        table.append(("call to alert, p99, in step 3", "≤ 100 ms", "20 ms", f"{late['p99_ms']:.1f} ms", "not judged" if late.get("not_judged") else judged(late["p99_ms"], 100, 20)))
    found = live.get("forbidden") or {"skipped": "not run"}
    if found.get("skipped"):
        table.append(("rules broken on purpose, live", "≥ 30", "45", found["skipped"][:60], "skipped"))
    else:
        table.append(("rules broken on purpose, live", "≥ 30", "45", f"{found['found']} of {found['of']}", judged(found["found"], 30, 45, True)))
    storm = results.get("storm")
    if storm and storm.get("skipped"):
        table.append(("storm of processes: memory after the first minute", "≤ +10 %", "", storm["skipped"][:60], "skipped"))
    elif storm:
        table.append(("storm of processes: ends well, with a balanced account", "exit 0", "", f"exit {storm['exit']}", "met" if storm["exit"] == 0 else "missed"))
        growth = 100 * (storm["most_mib"] / max(storm["first_minute_mib"], 0.1) - 1)
        table.append(("storm of processes: memory after the first minute", "≤ +10 %", "", f"{growth:+.1f} %", judged(growth, 10, None)))
    if rows:
        page.section("With rules", "Is anything shed in step 3 when Falco's rules are tried on each event?", ["rules", "requests/s", "events/s", "reader CPU s", "shed"],
                     [*rows, ["Falco, no rules, measured earlier", "", "597,000", "", "0"]],
                     figure=f"{late.get('p99_ms', 0):.0f} ms" if not late.get("skipped") else "–", answer="From a call to its alert, the 99th percentile.")


def million_rows(page, results, short):
    million = results.get("million")
    if not million:
        return
    rows = []
    bare = million[(None, "bare")]["requests_s"]
    for (step, _), found in million.items():
        published = PROPOSAL["bare"] if step is None else PROPOSAL[short(step)][0]
        rows.append([step or "bare", shown(found["requests_s"]), shown(100 * found["requests_s"] / bare, 1), shown(found.get("events")), shown(found.get("file_bytes")),
                     shown(found.get("shed")), shown(published), shown(100 * published / PROPOSAL["bare"], 0), found.get("not_judged", "")])
    page.section("A million requests", "The proposal's own number of requests, once.",
                 ["step", "requests/s", "% of bare", "events", "bytes of the file", "shed", "published, enter and exit", "% of bare", ""], rows,
                 figure=rows[-1][2] + " %", answer="Step 3 of bare.", text_columns=(8,))
