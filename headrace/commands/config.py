"""`headrace config …`: is the configuration right, and what can be configured."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.terminal import console, note, print_json, print_text

app = typer.Typer(no_args_is_help=True)


@app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Read the settings as `serve` would, and show what is in force (secrets are masked).

    What they leave open is said on stderr."""
    from headrace.process.open_nodes import openness
    from headrace.settings import config_file, load_settings

    settings = load_settings(config)
    settings.api.check_exposure()
    effective = settings.model_dump(mode="json")
    if as_json:
        print_json(effective)
    else:
        file = config_file(config)
        console().print(f"settings are right ({file or 'defaults and environment'})")
        for key, value in _flat(effective):
            console().print(f"  {key} = {value}")
    for reason in filter(None, (settings.api.exposure(), openness(settings.zookeeper))):
        note(reason, soft_wrap=True)


@app.command()
def reference(
    rest: Annotated[bool, typer.Option("--rest", help="of the REST interface instead")] = False,
    metrics: Annotated[bool, typer.Option("--metrics", help="of what Prometheus scrapes instead")] = False,
) -> None:
    """Every key with its default and meaning, as Markdown."""
    if metrics:
        from headrace.reference.of_metrics import metrics_reference

        print_text(metrics_reference().rstrip())
        return
    if rest:
        from api.app import described_app
        from api.openapi.reference import rest_reference

        print_text(rest_reference(described_app().openapi()).rstrip())
        return
    from headrace.reference.of_settings import settings_reference

    print_text(settings_reference())


def _flat(value: object, prefix: str = "") -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(prefix, value)]
    return [pair for key, one in value.items() for pair in _flat(one, f"{prefix}.{key}" if prefix else key)]
