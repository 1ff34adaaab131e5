"""`headrace config …`: check and show the settings, and list every key."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.commands.options import ConfigOption, JsonOption
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, note, print_json, print_table, print_text
from mirror.wording import counted

app = CommandGroup(no_args_is_help=True)


@app.command()
def check(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print every effective setting.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Validate the settings as `serve` would.

    Certificates, keys and other files that the settings name must be readable, too. Secrets are masked.
    Warnings on stderr report security gaps, and cluster aliases that map to the same environment
    variable."""
    from headrace.clusters.alias_collisions import alias_collisions
    from headrace.clusters.plain_credentials import plain_credentials
    from headrace.console.access.document import config_file
    from headrace.coordination.client import store_sentence
    from headrace.placement.planners import check_plug_ins
    from headrace.process.open_nodes import openness
    from headrace.process.setting_files import check_files
    from headrace.settings import load_settings

    settings = load_settings(config)
    settings.api.check_exposure()
    check_files(settings)
    check_plug_ins(settings)
    effective = settings.model_dump(mode="json")
    if as_json:
        print_json(effective)
    else:
        file = config_file(config)
        source, store = file or "defaults and environment", store_sentence(settings)
        console().print(f"settings are valid ({source}); coordination store: {store}", soft_wrap=True)
        for key, value in _flat(effective) if verbose else ():
            console().print(f"  {key} = {value}")
    nodes = openness(settings.zookeeper) if settings.uses_zookeeper else ""
    open_parts = (settings.api.exposure(), nodes, *plain_credentials(settings))
    for reason in filter(None, (*open_parts, *alias_collisions(settings))):
        note(reason, soft_wrap=True)


@app.command()
def show(
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only settings that differ from the default.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show effective settings and the origin of each.

    The origin is the environment, the file or the default. Secrets are masked."""
    import os

    from headrace.console.access.document import read_document
    from headrace.reference.origins import SettingOrigin, origins
    from headrace.settings import load_settings

    effective = load_settings(config).model_dump(mode="json")
    found = list(origins(effective, read_document(config), os.environ))
    shown = [
        setting._asdict() for setting in found if not (changed and setting.origin is SettingOrigin.DEFAULT)
    ]
    if as_json:
        print_json(shown)
    else:
        print_table(f"{len(shown)} of {counted(len(found), 'setting')}", ["key", "value", "origin"], shown)


@app.command()
def example() -> None:
    """Print a settings file (TOML): keys, defaults, meanings."""
    from headrace.reference.example import example_settings

    print_text(example_settings())


def _flat(value: object, prefix: str = "") -> list[tuple[str, object]]:
    if not isinstance(value, dict):
        return [(prefix, value)]
    return [
        pair for key, inner in value.items() for pair in _flat(inner, f"{prefix}.{key}" if prefix else key)
    ]
