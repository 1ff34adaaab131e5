"""HTML page of /v1, generated from its OpenAPI document, without scripts and external resources."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
code, pre { font: 13px/1.45 ui-monospace, monospace; background: #8881; border-radius: 3px }
pre { padding: .6rem; overflow-x: auto }
table { border-collapse: collapse }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0 }
details { border-top: 1px solid #8884; padding: .4rem 0 } summary { cursor: pointer }
"""
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""Content security policy: allows only the page's own style."""
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{ document.info.title }} REST</title>
<style>{{ style }}</style></head><body>
<h1>{{ document.info.title }} {{ document.info.version }}</h1>
<p>OpenAPI document of <code>/v1</code>: <a href="/v1/openapi.json">/v1/openapi.json</a></p>
{% for part in document.info.description.split("\n\n") %}<p>{{ part }}</p>
{% endfor %}
{% for tag in document.tags %}<h2>{{ tag.name }}</h2><p>{{ tag.description }}</p>
{% for path, operations in document.paths.items() %}{% for method, one in operations.items() %}
{% if tag.name in one.tags %}<details><summary><code>{{ method.upper() }} {{ path }}</code></summary>
<p>{{ one.description }}</p>
{% if one.parameters %}<table><tr><th>parameter</th><th>in</th><th>meaning</th></tr>
{% for it in one.parameters %}<tr><td><code>{{ it.name }}</code></td><td>{{ it.in }}</td>
<td>{{ it.description }}</td></tr>{% endfor %}</table>{% endif %}
{% for media, body in one.get("requestBody", {}).get("content", {}).items() %}
<p>Body, <code>{{ media }}</code>, for example</p><pre>{{ shown(body.example) }}</pre>{% endfor %}
<table><tr><th>status</th><th>meaning</th></tr>
{% for status, it in one.responses.items() %}<tr><td>{{ status }}</td><td>{{ it.description }}</td></tr>
{% endfor %}</table></details>
{% endif %}{% endfor %}{% endfor %}{% endfor %}
</body></html>
"""


def page_of(document: Mapping[str, Any]) -> str:
    """Render the page as HTML. `document`: an OpenAPI document."""
    template = Environment(autoescape=True).from_string(_PAGE)
    return template.render(
        document=document,
        style=_STYLE,
        shown=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    )
