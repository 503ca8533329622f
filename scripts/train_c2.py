#!/usr/bin/env python3
# Trains the scorer of command and control and writes how good it is.
"""Trains the scorer of command and control on labelled strings of letters, and measures how good it is.

    scripts/train_c2.py CORPUS/flows/letters-labelled.tsv

writes crates/behavior/src/command_and_control/model.txt (trees, one a line, in preorder) and the tables
in docs/command-and-control.md between its marks. It needs numpy; a run takes some minutes and gives the
same bytes each time.

The model is the mean of boosted trees over features of a string (crates/behavior/src/command_and_control/
features.rs has the same ones in the same order; a test there compares both on strings in the
model's file). It learns from strings and from parts of them, since these strings cover days while those to be
scored cover an hour and begin with five flows. It is tested on whole strings, and on beginnings,
of which it has seen no part: by whole groups (the column `fold`, a hash of source address
and label), and by source address.
"""
import hashlib
import math
import random
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "crates/behavior/src/command_and_control/model.txt"
PAGE = ROOT / "docs/command-and-control.md"

SETS = ["123456789", "abcdefghi", "ABCDEFGHI", "rstuvwxyz", "RSTUVWXYZ"]
CLASS = {c: (p, i // 3, i % 3) for p, s in enumerate(SETS) for i, c in enumerate(s)}
GAPS = ".,+*"
SECONDS = [2, 20, 150, 1200, 0]
LONGEST = 500

# Parameters of the training.
TREES, DEPTH, RATE, RIDGE, LEAST, SMALLEST = 80, 4, 0.12, 2.0, 0.75, 8
MEMBERS, ROWS, COLUMNS, BINS = 3, 0.7, 0.25, 24
# The parts of a string: beginnings of these numbers of flows, spans anywhere, and the parts between full hours.
BEGINNINGS = (3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 41, 51, 63, 78, 97, 121, 151, 188, 235)
SHORTEST, SPANS_MOST, HOURS_MOST = 3, 20, 12
# Beginnings that are tested.
JUDGED = (5, 10, 22, 51)
# The share of all malicious held-out strings that each level must find.
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


def part(text_tokens, begin, end):
    """The string that a window of these flows would have: the first two have no regularity."""
    out = []
    for at, (_, regularity, size, duration, hours, gap) in enumerate(text_tokens[begin:end]):
        if at == 0 and begin > 0:
            hours, gap = 0, len(GAPS)
        letter = SETS[regularity if at > 1 else 0][size * 3 + duration]
        out.append("0" * hours + letter + GAPS[gap:gap + 1])
    return "".join(out)


def parts(text):
    """A string, and those that the same program would have made if a window had begun or ended elsewhere."""
    t = tokens(text)
    n = len(t)
    found = {(0, count) for count in BEGINNINGS if count < n}
    rnd = random.Random(text)
    for _ in range(min(SPANS_MOST, n // 3) if n > SHORTEST else 0):
        count = round(SHORTEST * (n / SHORTEST) ** rnd.random())
        begin = rnd.randrange(n - count + 1)
        found.add((begin, begin + count))
    borders = [0] + [i for i in range(1, n) if t[i][4] > 0] + [n]
    hours = [(a, b) for a, b in zip(borders, borders[1:]) if b - a >= SHORTEST]
    found.update(hours[:HOURS_MOST])
    found.discard((0, n))
    return [(n, text)] + [(b if a == 0 else 0, part(t, a, b)) for a, b in sorted(found)]


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
    # As in Slips: TCP, and strings of five characters or more.
    return [r for r in rows if r["proto"] == "tcp" and len(r["letters"]) >= 5]


class Data:
    """Strings, and rows of features: for each string first the whole, then its parts."""

    def __init__(self, rows):
        self.rows = rows
        self.bad = np.array([r["label"] == "Malicious" for r in rows])
        self.cc = np.array([r["cc"] == "1" for r in rows])
        self.source = [r["tuple"].rsplit("-", 3)[0] for r in rows]
        of, whole, first, values = [], [], [], []
        for i, r in enumerate(rows):
            for at, (beginning, text) in enumerate(parts(r["letters"])):
                found = features(text)
                of.append(i)
                whole.append(at == 0)
                first.append(beginning)
                values.append([v for _, _, v in found])
        self.names = [(group, name) for group, name, _ in found]
        # The string of each row, whether the row is the whole string, and how many first flows it has (0: not the first).
        self.of, self.whole, self.first = np.array(of), np.array(whole), np.array(first)
        values = np.array(values)
        self.edges = []
        for j in range(len(self.names)):
            column = np.sort(values[self.whole, j])
            steps = np.unique(column)
            if len(steps) > BINS:
                steps = np.unique(column[[len(column) * k // BINS for k in range(BINS)]])
            # Rounded, so that the file holds the values in use.
            self.edges.append([float(f"{(a + b) / 2:.6g}") for a, b in zip(steps, steps[1:])])
        self.bins = np.stack([np.searchsorted(e, values[:, j]) for j, e in enumerate(self.edges)], axis=1)
        self.most = max(len(e) for e in self.edges) + 1


def weights(data, index):
    """A string counts once, shared by its parts; both labels weigh the same."""
    of = data.of[index]
    w = 1 / np.bincount(of)[of]
    total = len(np.unique(of))
    for label in (False, True):
        rows = data.bad[of] == label
        w[rows] *= total / 2 / w[rows].sum()
    return w


def grow(data, rows, grad, hess, columns):
    """A tree over rows of `data`: lists of feature (-1 in leaves), step and value, the children of the
    node `i` at 2i + 1 (up to the step) and 2i + 2."""
    size = 2 ** (DEPTH + 1) - 1
    feature, step, value = np.full(size, -1), np.zeros(size, int), np.zeros(size)
    bins, at = data.bins[rows], np.zeros(len(rows), int)
    for depth in range(DEPTH + 1):
        begin, count = 2 ** depth - 1, 2 ** depth
        live = at >= begin
        node = at[live] - begin
        g, h = (np.bincount(node, x[live], count) for x in (grad, hess))
        value[begin:begin + count] = RATE * g / (h + RIDGE)
        if depth == DEPTH:
            break
        enough = np.bincount(node, minlength=count) >= SMALLEST
        best, chosen = np.full(count, 1e-3), np.full((count, 2), -1)
        for j in columns:
            key = node * data.most + bins[live, j]
            lg, lh = (np.bincount(key, x[live], count * data.most).reshape(count, -1).cumsum(1)
                      for x in (grad, hess))
            hg, hh = g[:, None] - lg, h[:, None] - lh
            gain = lg * lg / (lh + RIDGE) + hg * hg / (hh + RIDGE) - (g * g / (h + RIDGE))[:, None]
            gain[(lh < LEAST) | (hh < LEAST)] = 0.0
            k = gain.argmax(1)
            gain = gain[np.arange(count), k]
            better = enough & (gain > best)
            best[better] = gain[better]
            chosen[better] = np.stack([np.full(count, j), k], axis=1)[better]
        feature[begin:begin + count], step[begin:begin + count] = chosen[:, 0], chosen[:, 1]
        split = live & (feature[at] >= 0)
        here = at[split]
        at[split] = 2 * here + 1 + (bins[split, feature[here]] > step[here])
    return feature, step, value


def leaf(tree, bins):
    """The values of a tree for rows of bins."""
    feature, step, value = tree
    at, each = np.zeros(len(bins), int), np.arange(len(bins))
    for _ in range(DEPTH):
        down = 2 * at + 1 + (bins[each, feature[at]] > step[at])
        at = np.where(feature[at] >= 0, down, at)
    return value[at]


def fit(data, index):
    """Trains trees on rows."""
    w, bad, bins = weights(data, index), data.bad[data.of[index]], data.bins[index]
    members = []
    for member in range(MEMBERS):
        rnd = random.Random(member + 1)
        score = np.zeros(len(index))
        trees = []
        for _ in range(TREES):
            taken = np.array([rnd.random() < ROWS for _ in index])
            columns = [j for j in range(len(data.names)) if rnd.random() < COLUMNS]
            p = 1 / (1 + np.exp(-score[taken]))
            grad, hess = w[taken] * (bad[taken] - p), w[taken] * p * (1 - p)
            trees.append(grow(data, index[taken], grad, hess, columns))
            score += leaf(trees[-1], bins)
        members.append(trees)
    return members


def judge(members, bins):
    return sum(leaf(tree, bins) for trees in members for tree in trees) / MEMBERS


def held_out(data, keys):
    """The score of each row by a model that was not trained on its string's key."""
    scores = np.zeros(len(data.of))
    keys = np.array(keys)[data.of]
    for key in sorted(set(keys)):
        model = fit(data, np.flatnonzero(keys != key))
        scores[keys == key] = judge(model, data.bins[keys == key])
    return scores


def worth(data, scores, least, of=None):
    """Counts what is reported for some strings (by default all) by their scores."""
    of = np.arange(len(data.rows)) if of is None else of
    reported, bad, cc = scores >= least, data.bad[of], data.cc[of]
    return [int(x.sum()) for x in (reported & bad, bad, reported & ~bad, ~bad, reported & cc, cc)]


def row(name, w):
    good, bad, wrong, fine, cc, ccs = w
    precision = good / max(1, good + wrong)
    return (f"| {name} | {precision:.3f} | {good / max(1, bad):.3f} ({good}/{bad}) | "
            f"{wrong / max(1, fine):.3f} ({wrong}/{fine}) | {cc / max(1, ccs):.3f} ({cc}/{ccs}) |\n")


def threshold(data, scores, recall):
    """The score with the best precision among those that reach this recall."""
    best = (0.0, 0.0)
    good = 0
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    for reported, i in enumerate(order, 1):
        good += data.bad[i]
        if good / data.bad.sum() >= recall:
            best = max(best, (good / reported, scores[i]))
    return best[1]


def written(tree, data, at=0):
    feature, step, value = tree
    j = feature[at]
    if j < 0:
        return [f"={value[at]:.5g}"]
    return [f"{j}:{data.edges[j][step[at]]:.6g}:{value[at]:.5g}",
            *written(tree, data, 2 * at + 1), *written(tree, data, 2 * at + 2)]


def main():
    data = Data(read(sys.argv[1]))
    strings = len(data.rows)
    rows_by_group = held_out(data, [r["fold"] for r in data.rows])
    by_group = rows_by_group[data.whole]
    levels = [threshold(data, by_group, recall) for recall in RECALLS]
    common = {s for s in data.source if data.source.count(s) >= 15}
    shares = {s: s if s in common else f"others{int(hashlib.sha256(s.encode()).hexdigest(), 16) % 5}"
              for s in set(data.source)}
    rows_by_address = held_out(data, [shares[s] for s in data.source])
    by_address = rows_by_address[data.whole]

    head = "| {} | precision | recall | false alarms | C&C proper found |\n|---|---|---|---|---|\n"
    tables = head.format("held-out groups of source and label (5 parts)")
    for name, least in zip(("high", "medium and above"), levels):
        tables += row(f"{name}: score ≥ {1 / (1 + math.exp(-least)):.3f}", worth(data, by_group, least))
    tables += "\n" + head.format("held-out source addresses")
    for name, least in zip(("high", "medium and above"), levels):
        tables += row(name, worth(data, by_address, least))
    for source in sorted(set(shares.values())):
        of = np.array([i for i, s in enumerate(data.source) if shares[s] == source])
        tables += row(f"{source}, medium and above", worth(data, by_address[of], levels[1], of))
    tables += "\n" + head.format("first flows of longer strings, medium and above")
    for count in JUDGED:
        at = np.flatnonzero((data.first == count) & ~data.whole)
        for name, scores in (("groups", rows_by_group), ("addresses", rows_by_address)):
            tables += row(f"{count}, held-out {name}", worth(data, scores[at], levels[1], data.of[at]))
    print(tables)

    model = fit(data, np.arange(len(data.of)))
    lines = ["# Written by scripts/train_c2.py: features, thresholds of the levels, trees, and strings with",
             "# the score that they have."]
    lines += ["feature\t" + group + "\t" + name for group, name in data.names]
    lines += ["level\t" + f"{1 / (1 + math.exp(-least)):.6f}" for least in levels]
    lines += ["tree\t" + " ".join(written(tree, data)) for trees in model for tree in trees]
    final = judge(model, data.bins[data.whole])
    picked = sorted(range(strings),
                    key=lambda i: hashlib.sha256(data.rows[i]["letters"].encode()).digest())[:40]
    lines += [f"check\t{final[i]:.4f}\t{data.rows[i]['letters'][:LONGEST]}" for i in picked]
    MODEL.write_text("\n".join(lines) + "\n", encoding="utf-8")

    begin, end = "<!-- tables -->\n", "<!-- end of tables -->\n"
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(begin)
    PAGE.write_text(before + begin + tables + end + rest.split(end)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
