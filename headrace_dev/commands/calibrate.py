"""`headrace-dev calibrate`: measure the copy rate of one core, and print the setting for this rate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.commands.options import JsonOption
from headrace.console.terminal import note, print_json, print_table, print_text
from headrace_dev.commands.stop_signals import cleaning_up
from mirror.wording import rate_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_dev.calibration.measure import Calibration


def calibrate(
    seconds: Annotated[
        float,
        typer.Option(
            min=2,
            max=600,
            help="Total time of the measurements in seconds, excluding the start of the brokers.",
        ),
    ] = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Measure how much one core of this host copies.

    One worker copies between two local brokers, which are started for the measurement (requires Java)."""
    from headrace_dev.calibration.measure import brokers
    from headrace_dev.calibration.measure import calibrate as measured

    note("starting two brokers")
    with cleaning_up(note), brokers() as clusters:
        found = measured(clusters, seconds, note)
    if as_json:
        print_json({"shapes": [_document(shape) for shape in found], "setting": _setting(found)})
        return
    print_table("copy rate of one core", list(_row(found[0])), [_row(shape) for shape in found])
    note(
        "the service learns the capacity from your own batches; until then, the slowest shape is a safe"
        " value:"
    )
    print_text(f"[mirror.leader]\nunlearned_capacity_bytes_per_second = {_setting(found)}")


def _setting(found: Sequence[Calibration]) -> int:
    """Return the task capacity to configure: that of the slowest batch shape, rounded down to two digits. The
    capacity of a shape is the low end of its interval, but at least half of its rate."""
    dearest = int(min(max(shape.low, shape.bytes_per_second / 2) for shape in found))
    unit = int(10 ** max(len(str(dearest)) - 2, 0))
    return max(dearest // unit * unit, 1)


def _document(calibration: Calibration) -> dict[str, Any]:
    return (
        asdict(calibration)
        | {"shape": calibration.shape.name, "codec": calibration.shape.codec.name.lower()}
        | {"batch_records": calibration.shape.records}
    )


def _row(calibration: Calibration) -> dict[str, object]:
    return {
        "records per batch": calibration.shape.records,
        "codec": calibration.shape.codec.name.lower(),
        "bytes per batch": f"{calibration.batch_bytes:,.0f}",
        "rate": rate_text(calibration.bytes_per_second),
        "interval": f"{rate_text(calibration.low)} to {rate_text(calibration.high)}",
        "records/s": f"{calibration.records_per_second:,.0f}",
        "CPU ms": f"{calibration.cpu_seconds * 1e3:,.0f}",
    }
