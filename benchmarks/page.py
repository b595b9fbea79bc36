"""The part of docs/benchmarks.md that a run writes: a table and a plot for each benchmark, beside its command.

docs/benchmarks.json keeps the figures of each benchmark's last run that was asked to write them, so that one can be
measured again without the others.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment

from benchmarks.figures import Figure

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- figures: made by `make bench` -->\n", "<!-- end of the figures -->\n"
_WIDTH, _ROW, _NAMES = 760, 22, 300
_SCALE = 140
"""Pixels for a ratio of 1; the scale ends at 3, longer bars are cut."""
_MOST = 3.0

_PAGE = """\
{% for name, run in runs.items() %}
### {{ name }}

`python -m benchmarks {{ name }}{{ " --quick" if run.quick }}{{ " --rows %d" % run.rows if run.rows }}`, {{ run.when }}, load average at its end {{ run.load }}, {{ run.cores }} cores.

{% if run.plotted %}
![{{ name }}: ratios to the rivals](images/benchmarks-{{ name }}.svg)

{% endif %}
| figure | value | rival | ratio | target | |
|---|---|---|---|---|---|
{% for one in run.figures %}
| {{ one.name }} | {{ one.value|number }} {{ one.unit }} | {{ one.rival|number }} | {{ one.ratio|number }} | {{ one.target|number }} | {{ one.verdict }} |
{% endfor %}

{% endfor %}
"""  # noqa: E501
_PLOT = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{{ width }}" height="{{ rows|length * row + 30 }}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
{% for one in rows %}
<text x="{{ names - 8 }}" y="{{ loop.index0 * row + 16 }}" text-anchor="end" fill="#1b1f24">{{ one.name }}</text>
<rect x="{{ names }}" y="{{ loop.index0 * row + 4 }}" width="{{ one.length }}" height="{{ row - 8 }}" fill="{{ "#a40e26" if one.verdict == "short" else "#0550ae" }}"/>
{% if one.target_at %}
<rect x="{{ names + one.target_at }}" y="{{ loop.index0 * row + 1 }}" width="2" height="{{ row - 2 }}" fill="#1b1f24"/>
{% endif %}
<text x="{{ names + one.length + 6 }}" y="{{ loop.index0 * row + 16 }}" fill="#1b1f24">{{ one.ratio|number }}</text>
{% endfor %}
<text x="{{ names }}" y="{{ rows|length * row + 20 }}" fill="#57606a">ratio to the rival (more is better; the mark is the target)</text>
</svg>
"""  # noqa: E501


def number(value: float | None) -> str:
    """As the command line prints it."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write(
    figures: Mapping[str, Sequence[Figure]],
    *,
    quick: bool,
    rows: int | None = None,
    order: Sequence[str] = (),
    docs: Path = DOCS,
) -> None:
    """Keeps the figures of each benchmark that ran, and makes the page's part and the plots anew.

    order: of the benchmarks on the page; others come after them.
    """
    kept = docs / "benchmarks.json"
    runs: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for name, found in figures.items():
        runs[name] = {
            "when": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "load": f"{os.getloadavg()[0]:.1f}",
            "cores": os.cpu_count(),
            "quick": quick,
            "rows": rows,
            "figures": [one.as_json() for one in found],
        }
    runs = {
        name: runs[name]
        for name in (*(one for one in order if one in runs), *(one for one in runs if one not in order))
    }
    kept.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    page = docs / "benchmarks.md"
    page.write_text(filled(page.read_text(encoding="utf-8"), runs), encoding="utf-8")
    (docs / "images").mkdir(exist_ok=True)
    for name, run in runs.items():
        if text := plot(run["figures"]):
            (docs / "images" / f"benchmarks-{name}.svg").write_text(text, encoding="utf-8")


def filled(page: str, runs: Mapping[str, Any]) -> str:
    """The page with the part between the markers made anew."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    shown = {name: {**run, "plotted": bool(plot(run["figures"]))} for name, run in runs.items()}
    return head + BEGIN + "\n" + _environment().from_string(_PAGE).render(runs=shown) + END + tail


def plot(figures: Sequence[Mapping[str, Any]]) -> str:
    """An SVG of the ratios; "" where nothing has a rival."""
    rows = [
        {
            **one,
            "length": round(min(one["ratio"], _MOST) * _SCALE),
            "target_at": round(min(one["target"], _MOST) * _SCALE) if one["target"] else 0,
        }
        for one in figures
        if one["ratio"]
    ]
    if not rows:
        return ""
    return _environment().from_string(_PLOT).render(rows=rows, width=_WIDTH, row=_ROW, names=_NAMES)


def _environment() -> Environment:
    made = Environment(trim_blocks=True, lstrip_blocks=True, autoescape=True, keep_trailing_newline=True)
    made.filters["number"] = number
    return made
