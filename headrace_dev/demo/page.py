"""Writes the demonstration's report (report.html) as a single self-contained file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jinja2 import Environment
from markupsafe import Markup

from headrace.console.files import write_file
from headrace_dev.demo.claims import DemoFindings
from headrace_dev.demo.pictures import latency_picture, load_picture

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Headrace: demonstration report</title>
<style>
 body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #1a202c }
 table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem }
 th, td { border-bottom: 1px solid #e2e8f0; padding: .3rem .6rem; text-align: left; vertical-align: top }
 .held { color: #276749; font-weight: 600 } .failed { color: #c53030; font-weight: 600 }
 code { background: #edf2f7; padding: .1rem .3rem } svg { max-width: 100%; height: auto }
</style></head><body>
<h1>Headrace: demonstration report</h1>
<p>Two Kafka clusters, Pinot and a Spark job on this machine;
{{ "%.0f"|format(f.seconds) }} seconds.
{% if f.all_held %}<span class="held">Every claim held.</span>
{% elif f.stopped %}<span class="failed">It stopped early.</span>
{% else %}<span class="failed">Not every claim held.</span>{% endif %}</p>
{% if f.stopped %}<p class="failed">{{ f.stopped }}</p>
<p>The findings below precede the failure. The logs of all processes are in <code>.headrace/demo</code>;
<code>headrace-dev demo --keep</code> leaves everything running.</p>{% endif %}
<h2>Claims</h2>
<table><tr><th></th><th>claim</th><th>measured</th></tr>
{% for claim in f.claims %}<tr><td class="{{ 'held' if claim.held else 'failed' }}">
{{ 'held' if claim.held else 'FAILED' }}</td><td>{{ claim.statement }}</td><td>{{ claim.evidence }}</td></tr>
{% endfor %}</table>
<h2>Load per task</h2>{{ loads }}
<h2>Hot partitions</h2><p>Found by <code>{{ f.hot_query }}</code></p>{{ table(f.hot_rows) }}
<h2>Latency</h2>{{ latency }}
<ol>{% for at, text in f.marks %}<li>{{ "%.0f"|format(at) }} s: {{ text }}</li>{% endfor %}</ol>
<table><tr><th>phase</th><th>p50 ms</th><th>p99 ms</th><th>records</th></tr>
{% for p in f.latency %}<tr><td>{{ p.title }}</td><td>{{ "%.0f"|format(p.p50_ms) }}</td>
<td>{{ "%.0f"|format(p.p99_ms) }}</td><td>{{ p.records }}</td></tr>{% endfor %}</table>
<h2>Moves of the rebalance, with reasons</h2>{{ table(f.moves) }}
<h2>Audit</h2>{{ table(f.audit) }}
</body></html>
"""
_TABLE: Final = """<table><tr>{% for c in columns %}<th>{{ c.replace("_", " ") }}</th>{% endfor %}</tr>
{% for row in rows %}<tr>{% for c in columns %}<td>{{ row[c] }}</td>{% endfor %}</tr>{% endfor %}</table>"""


def write_page(findings: DemoFindings, file: Path) -> None:
    """Write the report of the demonstration as HTML."""
    environment = Environment(autoescape=True)
    table = environment.from_string(_TABLE)

    def as_table(rows: list[dict[str, object]]) -> Markup:
        columns = list(rows[0]) if rows else []
        return Markup(table.render(columns=columns, rows=rows))  # noqa: S704 - rendered with escaping

    page = environment.from_string(_PAGE).render(
        f=findings,
        table=as_table,
        loads=Markup(load_picture(findings)),  # noqa: S704 - made by matplotlib
        latency=Markup(latency_picture(findings)),  # noqa: S704
    )
    write_file(file, page)
