#!/usr/bin/env python3
# Trains the scorer of command and control and writes what it is worth.
"""Trains the scorer of command and control on labelled strings of letters, and says what it is worth.

    scripts/train_c2.py CORPUS/flows/letters-labelled.tsv

writes crates/behavior/src/command_and_control/model.txt (trees, one a line, in preorder) and the tables
in docs/command-and-control.md between its marks. Nothing but Python's own library is used; a run takes
some two minutes and gives the same bytes each time.

The model is the mean of boosted trees over features of a string (crates/behavior/src/command_and_control/
features.rs has the same ones in the same order; a test there compares both on strings written beside the
model). It is judged on strings it has not seen: by whole groups (the column `fold`, a hash of source
address and label), and by source address.
"""
import bisect
import hashlib
import math
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "crates/behavior/src/command_and_control/model.txt"
PAGE = ROOT / "docs/command-and-control.md"

SETS = ["123456789", "abcdefghi", "ABCDEFGHI", "rstuvwxyz", "RSTUVWXYZ"]
CLASS = {c: (p, i // 3, i % 3) for p, s in enumerate(SETS) for i, c in enumerate(s)}
GAPS = ".,+*"
SECONDS = [2, 20, 150, 1200, 0]
LONGEST = 500

# How it is trained.
TREES, DEPTH, RATE, RIDGE, LEAST = 80, 4, 0.12, 2.0, 0.75
MEMBERS, ROWS, COLUMNS, BINS = 3, 0.7, 0.5, 24
CC_WEIGHT = 3.0
# What of all malicious held-out strings each level is to find.
RECALLS = (0.90, 0.95)


def tokens(text):
    """Letters with their class, the full hours before them and the kind of gap."""
    out, hours = [], 0
    for c in text[:LONGEST]:
        if c == "0":
            hours += 1
        elif c in CLASS:
            out.append([c, *CLASS[c], hours, 4])
            hours = 0
        elif c in GAPS and out:
            out[-1][5] = GAPS.index(c)
    return out


def entropy(values):
    count = {}
    for v in values:
        count[v] = count.get(v, 0) + 1
    n = len(values)
    return -sum(v / n * math.log2(v / n) for _, v in sorted(count.items()))


def most(values):
    count = {}
    for v in values:
        count[v] = count.get(v, 0) + 1
    return max(count.values()) if count else 0


def longest(values):
    best = run = 0
    last = None
    for v in values:
        run = run + 1 if v == last else 1
        last, best = v, max(best, run)
    return best


def mean(values):
    return sum(values) / len(values) if values else -1.0


def features(text):
    t = tokens(text)
    n = len(t)
    pairs = list(zip(t, t[1:]))
    thirds = list(zip(t, t[2:]))

    def share(test):
        return sum(1 for x in t if test(x)) / n

    def same(test, of=pairs):
        return sum(1 for a, b in of if test(a) == test(b)) / max(1, len(of))

    letter, size_duration = (lambda x: x[0]), (lambda x: (x[2], x[3]))
    f = [("letters", "count", math.log(n))]
    f += [("periodicity", f"class{p}", share(lambda x: x[1] == p)) for p in range(1, 5)]
    f += [("sizes", f"size{p}", share(lambda x: x[2] == p)) for p in range(3)]
    f += [("sizes", f"duration{p}", share(lambda x: x[3] == p)) for p in range(3)]
    f += [("span", f"gap{p}", share(lambda x: x[5] == p)) for p in range(5)]
    hours = [x[4] for x in t]
    span = math.log(1 + sum(SECONDS[x[5]] + 3600 * x[4] for x in t))
    f += [
        ("span", "hours", sum(hours) / n),
        ("span", "most_hours", float(max(hours))),
        ("span", "with_hours", share(lambda x: x[4] > 0)),
        ("span", "span", span),
        ("span", "rate", span - math.log(n)),
        ("letters", "same", same(letter)),
        ("sizes", "same_size", same(lambda x: x[2])),
        ("sizes", "same_duration", same(lambda x: x[3])),
        ("span", "same_gap", same(lambda x: x[5])),
        ("periodicity", "same_class", same(lambda x: x[1])),
        ("letters", "entropy", entropy([x[0] for x in t])),
        ("sizes", "entropy_size", entropy([x[2] for x in t])),
        ("sizes", "entropy_duration", entropy([x[3] for x in t])),
        ("span", "entropy_gap", entropy([x[5] for x in t])),
        ("sizes", "entropy_both", entropy([size_duration(x) for x in t])),
        ("letters", "distinct", float(len({x[0] for x in t}))),
        ("letters", "distinct_share", len({x[0] for x in t}) / n),
        ("letters", "most_common", most([x[0] for x in t]) / n),
        ("sizes", "most_common_both", most([size_duration(x) for x in t]) / n),
    ]
    f += [("sizes", f"both{a}{b}", share(lambda x: size_duration(x) == (a, b)))
          for a in range(3) for b in range(3)]
    slow = [x for x in t if x[5] != 0]
    bursts, run = [], 0
    for x in t:
        if x[5] == 0:
            run += 1
        elif run:
            bursts.append(run)
            run = 0
    if run:
        bursts.append(run)
    f += [
        ("letters", "run", longest([x[0] for x in t]) / n),
        ("sizes", "run_both", longest([size_duration(x) for x in t]) / n),
        ("span", "in_burst", sum(1 for a, b in pairs if a[5] == 0 and b[5] == 0) / max(1, len(pairs))),
        ("sizes", "first_size", float(t[0][2])),
        ("sizes", "first_duration", float(t[0][3])),
        ("sizes", "last_size", float(t[-1][2])),
        ("sizes", "last_duration", float(t[-1][3])),
    ]
    for g in range(4):
        of = [x for x in t if x[5] == g]
        f += [("sizes", f"size_at_gap{g}", mean([x[2] for x in of])),
              ("sizes", f"duration_at_gap{g}", mean([x[3] for x in of]))]
    f += [
        ("sizes", "most_common_slow", most([size_duration(x) for x in slow]) / max(1, len(slow))),
        ("span", "slow", len(slow) / n),
        ("span", "bursts", len(bursts) / n),
        ("span", "burst_mean", sum(bursts) / max(1, len(bursts))),
        ("span", "burst_most", float(max(bursts, default=0))),
    ]
    f += [("periodicity", f"size_at_class{p}", mean([x[2] for x in t if x[1] == p])) for p in range(1, 5)]
    f += [
        ("letters", "same_second", same(letter, thirds)),
        ("sizes", "same_second_both", same(size_duration, thirds)),
        ("sizes", "mean_size", mean([x[2] for x in t])),
        ("sizes", "mean_duration", mean([x[3] for x in t])),
    ]
    return f


def read(path):
    lines = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
    head = [c.lstrip("#") for c in lines[0]]
    rows = [dict(zip(head, line)) for line in lines[1:]]
    # As the peer: TCP, and strings of five characters or more.
    return [r for r in rows if r["proto"] == "tcp" and len(r["letters"]) >= 5]


class Data:
    def __init__(self, rows):
        self.rows = rows
        found = [features(r["letters"]) for r in rows]
        self.names = [(group, name) for group, name, _ in found[0]]
        values = [[v for _, _, v in f] for f in found]
        self.edges = []
        for j in range(len(self.names)):
            column = sorted(v[j] for v in values)
            steps = sorted(set(column))
            if len(steps) > BINS:
                steps = sorted({column[len(column) * k // BINS] for k in range(BINS)})
            # Rounded, so that the file holds what is used.
            self.edges.append([float(f"{(a + b) / 2:.6g}") for a, b in zip(steps, steps[1:])])
        self.bins = [[bisect.bisect_left(e, x) for e, x in zip(self.edges, v)] for v in values]
        self.bad = [r["label"] == "Malicious" for r in rows]
        self.cc = [r["cc"] == "1" for r in rows]
        self.source = [r["tuple"].rsplit("-", 3)[0] for r in rows]


def weights(data, index):
    """A group of address and label counts with the fourth root of its cube; both labels weigh the same."""
    groups = {}
    for i in index:
        groups.setdefault((data.source[i], data.rows[i]["label_full"]), []).append(i)
    w = {}
    for members in groups.values():
        for i in members:
            w[i] = len(members) ** -0.25 * (CC_WEIGHT if data.cc[i] else 1.0)
    for label in (False, True):
        of = [i for i in index if data.bad[i] == label]
        total = sum(w[i] for i in of)
        for i in of:
            w[i] *= len(index) / 2 / total
    return w


def grow(data, rows, grad, hess, columns, depth):
    g, h = sum(grad[i] for i in rows), sum(hess[i] for i in rows)
    value = RATE * g / (h + RIDGE)
    if depth == 0 or len(rows) < 8:
        return (value,)
    best, at = 1e-3, None
    for j in columns:
        count = len(data.edges[j]) + 1
        if count < 2:
            continue
        hg, hh = [0.0] * count, [0.0] * count
        for i in rows:
            b = data.bins[i][j]
            hg[b] += grad[i]
            hh[b] += hess[i]
        lg = lh = 0.0
        for k in range(count - 1):
            lg += hg[k]
            lh += hh[k]
            if lh < LEAST or h - lh < LEAST:
                continue
            gain = lg * lg / (lh + RIDGE) + (g - lg) ** 2 / (h - lh + RIDGE) - g * g / (h + RIDGE)
            if gain > best:
                best, at = gain, (j, k)
    if at is None:
        return (value,)
    j, k = at
    low = [i for i in rows if data.bins[i][j] <= k]
    high = [i for i in rows if data.bins[i][j] > k]
    return (value, j, k, grow(data, low, grad, hess, columns, depth - 1),
            grow(data, high, grad, hess, columns, depth - 1))


def leaf(tree, bins):
    while len(tree) > 1:
        tree = tree[3] if bins[tree[1]] <= tree[2] else tree[4]
    return tree[0]


def fit(data, index):
    w = weights(data, index)
    members = []
    for member in range(MEMBERS):
        rnd = random.Random(member + 1)
        score = dict.fromkeys(index, 0.0)
        trees = []
        for _ in range(TREES):
            rows = [i for i in index if rnd.random() < ROWS]
            p = {i: 1 / (1 + math.exp(-score[i])) for i in rows}
            grad = {i: w[i] * (data.bad[i] - p[i]) for i in rows}
            hess = {i: w[i] * p[i] * (1 - p[i]) for i in rows}
            columns = [j for j in range(len(data.names)) if rnd.random() < COLUMNS]
            trees.append(grow(data, rows, grad, hess, columns, DEPTH))
            for i in index:
                score[i] += leaf(trees[-1], data.bins[i])
        members.append(trees)
    return members


def judge(members, bins):
    return sum(leaf(tree, bins) for trees in members for tree in trees) / MEMBERS


def held_out(data, keys):
    scores = [0.0] * len(keys)
    for key in sorted(set(keys)):
        model = fit(data, [i for i, k in enumerate(keys) if k != key])
        for i, k in enumerate(keys):
            if k == key:
                scores[i] = judge(model, data.bins[i])
    return scores


def worth(data, scores, least):
    told = [s >= least for s in scores]
    good = sum(t and b for t, b in zip(told, data.bad))
    wrong = sum(t and not b for t, b in zip(told, data.bad))
    cc = sum(t and c for t, c in zip(told, data.cc))
    return good, sum(data.bad), wrong, len(told) - sum(data.bad), cc, sum(data.cc)


def row(name, w):
    good, bad, wrong, fine, cc, ccs = w
    precision = good / max(1, good + wrong)
    return (f"| {name} | {precision:.3f} | {good / max(1, bad):.3f} ({good}/{bad}) | "
            f"{wrong / max(1, fine):.3f} ({wrong}/{fine}) | {cc / max(1, ccs):.3f} ({cc}/{ccs}) |\n")


def threshold(data, scores, recall):
    """The score with the best precision of those that find so much."""
    best = (0.0, 0.0)
    good = told = 0
    for i in sorted(range(len(scores)), key=lambda i: (-scores[i], i)):
        told += 1
        good += data.bad[i]
        if good / sum(data.bad) >= recall:
            best = max(best, (good / told, scores[i]))
    return best[1]


def written(tree, data):
    if len(tree) == 1:
        return [f"={tree[0]:.5g}"]
    value, j, k, low, high = tree
    return [f"{j}:{data.edges[j][k]:.6g}:{value:.5g}", *written(low, data), *written(high, data)]


def main():
    data = Data(read(sys.argv[1]))
    by_group = held_out(data, [r["fold"] for r in data.rows])
    levels = [threshold(data, by_group, recall) for recall in RECALLS]
    common = {s for s in data.source if data.source.count(s) >= 15}
    part = {s: s if s in common else f"others{int(hashlib.sha256(s.encode()).hexdigest(), 16) % 5}"
            for s in set(data.source)}
    by_address = held_out(data, [part[s] for s in data.source])

    head = "| {} | precision | recall | false alarms | C&C proper found |\n|---|---|---|---|---|\n"
    tables = head.format("held-out groups of source and label (5 parts)")
    for name, least in zip(("high", "medium and above"), levels):
        tables += row(f"{name}: score ≥ {1 / (1 + math.exp(-least)):.3f}", worth(data, by_group, least))
    tables += "\n" + head.format("held-out source addresses")
    for name, least in zip(("high", "medium and above"), levels):
        tables += row(name, worth(data, by_address, least))
    for source in sorted(set(part.values())):
        index = [i for i, s in enumerate(data.source) if part[s] == source]
        one = Data.__new__(Data)
        one.bad, one.cc = [data.bad[i] for i in index], [data.cc[i] for i in index]
        tables += row(f"{source}, medium and above", worth(one, [by_address[i] for i in index], levels[1]))
    print(tables)

    model = fit(data, list(range(len(data.rows))))
    lines = ["# Written by scripts/train_c2.py: features, thresholds of the levels, trees, and strings with",
             "# the score that they have."]
    lines += ["feature\t" + group + "\t" + name for group, name in data.names]
    lines += ["level\t" + f"{1 / (1 + math.exp(-least)):.6f}" for least in levels]
    lines += ["tree\t" + " ".join(written(tree, data)) for trees in model for tree in trees]
    picked = sorted(range(len(data.rows)),
                    key=lambda i: hashlib.sha256(data.rows[i]["letters"].encode()).digest())[:40]
    lines += [f"check\t{judge(model, data.bins[i]):.4f}\t{data.rows[i]['letters'][:LONGEST]}" for i in picked]
    MODEL.write_text("\n".join(lines) + "\n", encoding="utf-8")

    begin, end = "<!-- tables -->\n", "<!-- end of tables -->\n"
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(begin)
    PAGE.write_text(before + begin + tables + end + rest.split(end)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
