"""Renders the report on an operation of a pair as a single HTML file, without scripts or references to other
files. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from headrace.console.escapes import visible
from headrace.console.terminal import time_text

_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;"
    "background:#fff}table{border-collapse:collapse;margin:.5rem 0 2rem}th,td{border:1px solid #aaa;"
    "padding:.25rem .75rem;text-align:left;overflow-wrap:anywhere}th{background:#eee}"
)
_FACTS: Final = {
    "outcome": "Outcome",
    "failure": "Reason",
    "origin": "From",
    "target": "To",
    "begun_ms": "Start",
    "ended_ms": "End",
    "operator": "Operator",
    "continued_by": "Continued by",
    "fenced_principals": "Fenced principals",
    "operation": "Operation",
    "issuer": "Report by",
    "issued_ms": "Report of",
}
_TABLES: Final = {
    "targets": "Targets",
    "stages": "Stages",
    "gaps": "Lost at the origin before they were copied",
    "groups": "Consumer groups",
    "audits": "Continuous audits",
    "positions": "Positions",
    "notes": "Notes",
}


def page_of(report: Mapping[str, Any]) -> str:
    """Return the HTML page for a report of `mirror.jobs.dr.report`."""
    title = _cell("", f"{report['pair']}: {report['scenario']}")
    facts = [f"<tr><th>{label}</th><td>{_cell(key, report[key])}</td></tr>" for key, label in _FACTS.items()]
    tables = [f"<h2>{heading}</h2>{_table(report[key])}" for key, heading in _TABLES.items()]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><h1>{title}</h1>"
        f"<table>{''.join(facts)}</table>{''.join(tables)}</body></html>\n"
    )


def _table(rows: Sequence[Any] | None) -> str:
    """Return a list of mappings as an HTML table, or a list of texts as an HTML list."""
    if not rows:
        return "<p>none</p>" if rows is not None else "<p>only kept for the last operation</p>"
    if not isinstance(rows[0], Mapping):
        items = "".join(f"<li>{_cell('', row)}</li>" for row in rows)
        return f"<ul>{items}</ul>"
    head = "".join(f"<th>{_cell('', key.removesuffix('_ms').replace('_', ' '))}</th>" for key in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{_cell(key, value)}</td>' for key, value in row.items())}</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(key: str, value: Any) -> str:
    """Return a value of the report as HTML. `key`: name of the value in the report."""
    match value:
        case None:
            text = "unknown"
        case bool():
            text = "yes" if value else "no"
        case int() if key.endswith("_ms"):
            text = time_text(value, "")
        case list():
            text = ", ".join(map(str, value)) or "none"
        case _:
            text = str(value)
    return escape(visible(text))
