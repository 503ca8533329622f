# Which runs can be judged, and the bars of the guard with what was measured for each.
"""A bar has a figure that must be reached and one to aim for. It is met, aimed (both), missed, not judged or skipped."""
import dataclasses, statistics

TICK_MS = 4.0
ENOUGH = 1.2
# Percent of a CPU that is more than the budget of the lab with its tolerance.
ABOVE = 33
# Cases whose figures mean something only if the flood offers more than the budget admits.
NEEDS_LOAD = ("flood, guard", "bursts, guard", "live frames, guard", "old flows", "flood, weight", "grace periods", "the guard at weight")


def unfit(case, found, steal_most):
    """Why a run can't be judged, or None."""
    if found["steal"] > steal_most:
        return f"{found['steal']:.0f} % of steal"
    if case.guard != "watch" and case.flood is not None and case.name.startswith(NEEDS_LOAD):
        load = found.get("offered_load")
        if load is None:
            return "the throttle's counters do not show what was offered"
        if load < ENOUGH * (0.5 if case.flood.get("off") else 1):
            return f"only {load:.2f} times what the budget admits was offered"
    # The throttle does not see this flood: its work on the CPU has to be more than the budget.
    if case.is_elsewhere and found["share"] < ENOUGH * case.budget:
        return f"the flood on the other interface took only {found['share']:.0f} % of the CPU"
    return None


@dataclasses.dataclass
class Bar:
    what: str
    must: str
    aim: str
    figure: str
    verdict: str
    note: str = ""


def fit(runs):
    return [r for r in runs or [] if not r.get("refused") and not r.get("not_judged")]


def bars(all_runs, only):
    """The table of bars."""
    result = []

    def bar(what, names, must, aim, value, test, aimed=None, unit="", of_runs=statistics.median):
        """`value` gives the figure of a run, judged by the median unless `of_runs` says otherwise; `names` are the cases that it is about."""
        for name in names:
            runs = all_runs.get(name)
            title = f"{what}: {name}" if len(names) > 1 else what
            if not runs:
                result.append(Bar(title, must, aim, "", "skipped", "not run"))
                continue
            good = fit(runs)
            known = [v for v in map(value, good) if v is not None]
            if not known:
                why = runs[0].get("refused") or runs[0].get("not_judged") or "no figure"
                result.append(Bar(title, must, aim, "", "not judged", why))
                continue
            figure = of_runs(known)
            verdict = "aimed" if aimed and aimed(figure) else "met" if test(figure) else "missed"
            result.append(Bar(title, must, aim, f"{figure:.2f}{unit}", verdict, f"{len(known)} of {len(runs)} runs"))

    guarded = ("flood, guard", "bursts, guard", "live frames, guard")
    filled = (*guarded, "old flows, guard")
    bar("share over any 200 ms", filled, "≤ 33 %", "31 %", lambda r: r["share_200ms"], lambda v: v <= 33, lambda v: v <= 31, " %")
    bar("first bucket", filled, "≤ 1.2 × budget", "", lambda r: r["first_bucket_us"] / 1200, lambda v: v <= 1.2, None, " × budget")
    bar("share in windows offered enough", ("old flows, guard",), "≥ 25 %", "28 %", lambda r: r["share_200ms_least"], lambda v: v >= 25, lambda v: v >= 28, " %")
    weights = [*(f"flood, weight 1:{w}, guard" for w in (1, 5, 60)), "old flows, guard", *(f"old flows, weight 1:{w}, guard" for w in (5, 60))]
    bar("packet work in any user gap above 0.3 × gap", weights, "≤ 3 ms", "1.5", lambda r: r["gap_excess_ms"], lambda v: v <= 3, lambda v: v <= 1.5, " ms")
    bar("allow-listed flow: dropped by the guard, in any run", guarded, "0", "0", lambda r: r["protected_dropped"], lambda v: v == 0, lambda v: v == 0, " packets",
        of_runs=max)
    bar("allow-listed flow: lost", guarded, "< 0.5 %", "0", lambda r: r["protected_lost"], lambda v: v < 0.5, lambda v: v == 0, " %")
    bar("flood of new flows: unlisted established flow lost", ("flood, guard",), "< 2 %", "", lambda r: r["established_lost"], lambda v: v < 2, None, " %")
    bar("flood of new flows: new flows of another prefix", ("flood, guard",), "> 95 % through", "", lambda r: 100 - r["new_lost"], lambda v: v > 95, None, " %")
    bar("flow here, flood on another interface: dropped", ("flood on another interface",), "< 0.5 %", "0", dropped_share, lambda v: v < 0.5, lambda v: v == 0, " %")
    result.append(grace_bar(all_runs))
    accounted = [f"{r['case']}" for runs in all_runs.values() for r in fit(runs) if account_is_off(r)]
    counted = sum(1 for runs in all_runs.values() for r in fit(runs) if r.get("account"))
    result.append(Bar("packets sent = passed + shed + the device's own drops", "exact", "", f"{counted - len(accounted)} of {counted} runs",
                      "skipped" if not counted else "missed" if accounted else "met", ", ".join(sorted(set(accounted))[:3])))
    bar("incident after the first packet", ("flood, guard",), "≤ 40 ms", "", lambda r: r["incident_ms"], lambda v: v <= 40, None, " ms")
    bar("cause after the first packet", ("flood, guard",), "≤ 2 s", "", lambda r: r["cause_ms"] and r["cause_ms"] / 1000, lambda v: v <= 2, None, " s")
    bar("the guard at weight 1:60, 10 s: share over any 200 ms", ("the guard at weight 1:60", "the guard at weight 1:60, no real time"), "≤ 35 %", "", lambda r: r["share_200ms"], lambda v: v <= 35, None, " %")
    starved = fit(all_runs.get("the guard at weight 1:60, no priority"))
    result.append(Bar("real-time priority that is refused is reported", "always", "", f"{sum(r['says_no_real_time'] for r in starved)} of {len(starved)} runs",
                      "skipped" if not starved else "met" if all(r["says_no_real_time"] for r in starved) else "missed"))
    result += [says_so(all_runs), says_threads_lose(all_runs)]
    result += cost_bars(only.get("costs") or {})
    for name, title in (("causes", "causes that are named right"), ("fresh", "fresh recordings judged right by guard report")):
        checks = only.get(name)
        if checks:
            good = [c for c in checks if is_right(name, c)]
            bad = [c[1] for c in checks if not is_right(name, c) and not c[2].get("refused")]
            result.append(Bar(title, "all", "", f"{len(good)} of {len(checks)}", "missed" if bad else "met", ", ".join(bad)))
    return result


def is_right(kind, check):
    about, _, found = check
    if found.get("refused"):
        return False
    cause = found["report"]["cause"] if kind == "fresh" and found.get("report") else found.get("cause")
    return cause in about[-1]


def dropped_share(r):
    account = r.get("account")
    return 100 * account["shed"] / max(1, account["received"]) if account else None


def account_is_off(r):
    account = r.get("account")
    return bool(account) and (account["missing"] != 0 or account["unbalanced"] != 0)


def grace_bar(all_runs):
    """The 95th percentile of grace periods in the guarded flood, against the calm seconds of the same runs."""
    runs = fit(all_runs.get("grace periods, flood, guard"))
    flood = sorted(v for r in runs for v in r["grace"]["flood"])
    calm = sorted(v for r in runs for v in r["grace"]["calm"])
    what, must = "grace periods, p95 of 800 and more", "≤ calm + one tick"
    if not runs:
        return Bar(what, must, "calm", "", "skipped", "not run")
    p95 = lambda all_of: all_of[int(len(all_of) * 0.95)]
    figure = f"{p95(flood):.1f} ms, calm {p95(calm):.1f}"
    if len(flood) < 800:
        return Bar(what, must, "calm", figure, "not judged", f"only {len(flood)} samples")
    verdict = "aimed" if p95(flood) <= p95(calm) else "met" if p95(flood) <= p95(calm) + TICK_MS else "missed"
    return Bar(what, must, "calm", figure, verdict, f"{len(flood)} samples")


def says_so(all_runs):
    """Generic XDP is not judged: the guard has to report that it can't hold the budget, where it can't."""
    runs = fit(all_runs.get("flood, generic XDP"))
    what = "generic XDP above the budget is reported"
    if not runs:
        return Bar(what, "always", "", "", "skipped", "not run")
    above = [r for r in runs if r["share"] > ABOVE]
    said = [r for r in above if r["cannot_hold"] or r["rungs"] or "does not keep" in (r.get("line") or "")]
    return Bar(what, "always", "", f"{len(said)} of {len(above)} runs above {ABOVE} %", "met" if len(said) == len(above) else "missed")


def says_threads_lose(all_runs):
    """Packet work in threads is not judged: the guard has to report what it can't hold there."""
    runs = fit(all_runs.get("flood, threaded NAPI"))
    what = "threaded NAPI: that protected flows lose packets is reported"
    if not runs:
        return Bar(what, "always", "", "", "skipped", "not run")
    said = sum(r["says_threads_lose"] for r in runs)
    return Bar(what, "always", "", f"{said} of {len(runs)} runs", "met" if said == len(runs) else "missed")


def cost_bars(found):
    """Bars in nanoseconds above an empty program."""
    result = []
    for key, what, must, aim, unit in (("softirq_pair", "softirq entry and exit, above an empty pair", 160, 90, "ns"),
                                       ("refused", "refused packet, above an empty XDP program", 80, 45, "ns"),
                                       ("known", "known packet, above an empty XDP program", 120, 80, "ns"),
                                       ("instruments", "all instruments, victim CPU in the flood", 2.0, 1.0, "%")):
        value = found.get(key)
        if value is None:
            result.append(Bar(what, f"≤ {must} {unit}", str(aim), "", "skipped", found.get("why", "")))
            continue
        verdict = "aimed" if value <= aim else "met" if value <= must else "missed"
        result.append(Bar(what, f"≤ {must} {unit}", str(aim), f"{value:.1f} {unit}", verdict, found.get(key + "_note", "")))
    return result
