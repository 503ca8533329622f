# The page and the tables of experiments: one file that opens offline, with a light and a dark style, and can be printed.
"""Reports of experiments, as text on the terminal and as one HTML page.

A section has a question, an answer in one sentence, charts (measured and published figures) and their table.
The page loads nothing: it contains its styles and charts.
"""
import html, sys

STYLE = """
:root{--ink:#1c2430;--soft:#5b6675;--line:#dfe4ea;--paper:#fff;--card:#f6f8fa;--ours:#0f766e;--theirs:#b7791f;--track:#eceff3}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa5b4;--line:#2c3540;--paper:#12171d;--card:#1a2129;
--ours:#2dd4bf;--theirs:#e0a94a;--track:#232c36}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif;
font-variant-numeric:tabular-nums}
main{max-width:1060px;margin:0 auto;padding:2.4rem 1.4rem 4rem}
h1{font-size:2.1rem;line-height:1.15;margin:0 0 .3rem;letter-spacing:-.02em}
h2{font-size:1.3rem;margin:0;letter-spacing:-.01em}
p{margin:.35rem 0}.soft{color:var(--soft)}.small{font-size:.87rem}
.key{display:flex;gap:1.4rem;flex-wrap:wrap;margin-top:.8rem}
.key span::before{content:"";display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.45em;vertical-align:-.05em;background:var(--c)}
.short{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:.8rem;margin:1.6rem 0 0}
.short a{display:block;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem 1rem;color:inherit;text-decoration:none}
.short a:hover{border-color:var(--ours)}
.short b{display:block;font-size:1.55rem;line-height:1.2;color:var(--ours);letter-spacing:-.02em}
.short i{font-style:normal;font-weight:600;display:block}
section{border-top:1px solid var(--line);margin-top:2.6rem;padding-top:1.5rem}
.answer{font-size:1.05rem;margin:.5rem 0 .2rem}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1rem 1.6rem;margin:1rem 0}
figure{margin:0}figcaption{font-size:.87rem;font-weight:600;margin-bottom:.25rem}
svg{display:block;width:100%;max-width:30rem;height:auto;font-size:13px;font-family:inherit}
svg text{fill:var(--ink)}svg .soft{fill:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.6rem 0;min-width:100%}
th{font-weight:600;color:var(--soft);vertical-align:bottom}td,th{padding:.32rem .8rem;text-align:right;border-bottom:1px solid var(--line)}
td:first-child{white-space:nowrap}td:first-child,th:first-child,td.text,th.text{text-align:left}tbody tr:last-child td{border-bottom:0}
footer{border-top:1px solid var(--line);margin-top:3rem;padding-top:1rem}
@media print{main{max-width:none;padding:0}section{break-inside:avoid}}
"""


def shown(v):
    """A number with its significant digits."""
    if v >= 100:
        return f"{v:,.0f}"
    if v >= 10:
        return f"{v:.1f}"
    return f"{v:.3g}"


def bars(caption, unit, values, published=False):
    """A chart of horizontal bars: (label, value); None is shown as "no figure"."""
    color = "--theirs" if published else "--ours"
    known = [float(v) for _, v in values if v is not None]
    most = max(known, default=1) or 1
    left, width = 186, 166
    parts = []
    for i, (label, value) in enumerate(values):
        y = 2 + i * 27
        parts.append(f'<text x="{left - 10}" y="{y + 15}" text-anchor="end">{html.escape(str(label))}</text>'
                     f'<rect x="{left}" y="{y}" width="{width}" height="20" rx="3" style="fill:var(--track)"/>')
        if value is None:
            parts.append(f'<text class="soft" x="{left + 8}" y="{y + 15}">no figure</text>')
            continue
        w = max(width * float(value) / most, 1.5)
        parts.append(f'<rect x="{left}" y="{y}" width="{w:.1f}" height="20" rx="3" style="fill:var({color})"/>'
                     f'<text x="{left + width + 8}" y="{y + 15}">{shown(float(value))}</text>')
    height = 4 + 27 * len(values)
    return (f'<figure><figcaption>{html.escape(caption)} <span class="soft">{html.escape(unit)}</span></figcaption>'
            f'<svg viewBox="0 0 424 {height}" role="img" aria-label="{html.escape(caption)}">{"".join(parts)}</svg></figure>')


def curve(caption, points, measured, most_x):
    """The speed-up by the number of processors: a curve, the ideal, and measured points."""
    w, h, left, bottom = 470, 250, 38, 28
    most_y = most_x
    x = lambda v: left + (w - left - 12) * (v - 1) / (most_x - 1)
    y = lambda v: h - bottom - (h - bottom - 12) * v / most_y
    parts = []
    for tick in (1, 4, 8, 12, 16, 20, 24):
        if tick > most_x:
            continue
        parts.append(f'<line x1="{left}" x2="{w - 12}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" style="stroke:var(--track)"/>'
                     f'<text class="soft" x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>'
                     f'<text class="soft" x="{x(tick):.1f}" y="{h - 8}" text-anchor="middle">{tick}</text>')
    parts.append(f'<line x1="{x(1)}" y1="{y(1):.1f}" x2="{x(most_x):.1f}" y2="{y(most_x):.1f}" '
                 f'style="stroke:var(--soft)" stroke-dasharray="4 4"/>')
    line = " ".join(f"{x(n):.1f},{y(v):.1f}" for n, v in points)
    parts.append(f'<polyline points="{line}" style="fill:none;stroke:var(--ours);stroke-width:2.5"/>')
    for n, v in measured:
        parts.append(f'<circle cx="{x(n):.1f}" cy="{y(v):.1f}" r="5" style="fill:var(--theirs);stroke:var(--paper);stroke-width:1.5"/>')
    last_n, last = points[-1]
    parts.append(f'<text x="{x(last_n):.1f}" y="{y(last) - 10:.1f}" text-anchor="end" font-weight="600">{last:.1f} times</text>')
    return (f'<figure><figcaption>{html.escape(caption)}</figcaption>'
            f'<svg viewBox="0 0 {w} {h}" role="img" aria-label="{html.escape(caption)}">{"".join(parts)}</svg></figure>')


class Report:
    """Sections in order; printed as they come, and a page at the end."""

    def __init__(self, title, about, command="make lab-network", folder="lab/network"):
        self.title, self.about, self.sections = title, about, []
        self.command, self.folder = command, folder

    def section(self, title, why, head, rows, charts=(), figure="", answer="", note="", text_columns=()):
        """`figure` is the main number of the section, `answer` the sentence that explains it."""
        self.sections.append((title, why, head, rows, charts, figure, answer, note, text_columns))
        print(f"\n{title}\n  {why}")
        widths = [max(len(str(v)) for v in column) for column in zip(head, *rows)]
        for row in [head, *rows]:
            print("  " + "  ".join(str(v).ljust(w) if i == 0 or i in text_columns else str(v).rjust(w)
                                   for i, (v, w) in enumerate(zip(row, widths))).rstrip())
        for line in (answer, note):
            if line:
                print(f"  {line}")
        sys.stdout.flush()

    def html(self):
        e = html.escape
        parts = ['<!doctype html><html lang="en"><meta charset="utf-8">'
                 '<meta name="viewport" content="width=device-width,initial-scale=1">'
                 f"<title>{e(self.title)}</title><style>{STYLE}</style><main><h1>{e(self.title)}</h1>",
                 *(f'<p class="soft">{e(line)}</p>' for line in self.about),
                 '<p class="key small"><span style="--c:var(--ours)">measured here</span>'
                 '<span style="--c:var(--theirs)">published</span></p><nav class="short">']
        for n, (title, _, _, _, _, figure, answer, _, _) in enumerate(self.sections, 1):
            parts.append(f'<a href="#s{n}"><i class="small">{e(title)}</i><b>{e(figure)}</b>'
                         f'<span class="small soft">{e(answer)}</span></a>')
        parts.append("</nav>")
        for n, (title, why, head, rows, charts, _, answer, note, text_columns) in enumerate(self.sections, 1):
            side = lambda i: ' class="text"' if i in text_columns else ""
            parts.append(f'<section id="s{n}"><h2>{e(title)}</h2><p class="soft">{e(why)}</p>')
            if answer:
                parts.append(f'<p class="answer">{e(answer)}</p>')
            if charts:
                parts.append(f'<div class="charts">{"".join(charts)}</div>')
            parts.append('<div class="scroll"><table><thead><tr>')
            parts += [f"<th{side(i)}>{e(str(h))}</th>" for i, h in enumerate(head)]
            parts.append("</tr></thead><tbody>")
            for row in rows:
                parts.append("<tr>" + "".join(f"<td{side(i)}>{e(str(c))}</td>" for i, c in enumerate(row)) + "</tr>")
            parts.append("</tbody></table></div>")
            if note:
                parts.append(f'<p class="soft small">{e(note)}</p>')
            parts.append("</section>")
        parts.append(f'<footer class="soft small">Repeat it: {e(self.command)}. The load and every figure on this page '
                     f"come from {e(self.folder)}.</footer></main></html>")
        return "".join(parts)
