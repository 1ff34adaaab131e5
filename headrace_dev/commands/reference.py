"""`headrace-dev reference`: print the generated pages of docs/."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from headrace.console.terminal import print_text


class Page(StrEnum):
    """A generated page of the documentation, by the name of its file in docs/."""

    CONFIGURATION = "configuration"
    REST = "rest"
    METRICS = "metrics"
    CLI = "cli"
    ERRORS = "errors"
    FIELDS = "datastream-fields"


def reference(
    context: typer.Context, page: Annotated[Page, typer.Argument(help="Name of the page in docs/.")]
) -> None:
    """Print a generated page of docs/ as Markdown."""
    print_text(_text_of(page, context).removesuffix("\n"))


def _text_of(page: Page, context: typer.Context) -> str:
    if page is Page.REST:
        from api.app import described_app
        from headrace_dev.reference.of_rest import rest_reference

        return rest_reference(described_app().openapi())
    if page is Page.METRICS:
        from headrace_dev.reference.of_metrics import metrics_reference

        return metrics_reference()
    if page is Page.CLI:
        from headrace_dev.reference.of_commands import both_roots, commands_reference

        return commands_reference(*both_roots(context.find_root().command))
    if page is Page.ERRORS:
        from headrace_dev.reference.of_errors import errors_reference

        return errors_reference()
    if page is Page.FIELDS:
        from headrace_dev.reference.of_fields import fields_reference

        return fields_reference()
    from headrace_dev.reference.of_settings import settings_reference

    return settings_reference()
