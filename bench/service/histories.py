"""Faults on real servers from the view of the engineer on call: alerts, causes, recovery, seconds with late
records.

Two clusters, ZooKeeper, three instances with the monitor, and a webhook receiver; steady traffic for two
datastreams and an idle third. One fault after the other; each must have at most one page, the right cause, no
page after the recovery, and the bad seconds that the topics show. Environment: `FAULTS="dead-source burst"`
selects faults, `FOLDER` is the folder for details (default `.headrace/histories`), `WRITE=1` writes the table
to docs/evaluation/histories.md.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.service.rig.histories.faults import FAULTS, Fault, wanted
from bench.service.rig.histories.rows import OK, Expected, Seen, row, table
from bench.service.rig.histories.site import DATASTREAMS, Site, site
from bench.service.rig.histories.truth import late_intervals, seconds_of
from bench.tables import replace_between
from monitor.causes.diagnosis import UNAVAILABLE
from monitor.records.outages import EXPLAINS_MS
from stack.errors import NotInTime
from stack.process.wait import wait_until

PAGE: Final = Path(__file__).parents[2] / "docs/evaluation/histories.md"
BEGIN: Final = "<!-- histories: written by bench service_histories -->"
END: Final = "<!-- end of histories -->"
_PATIENCE_SECONDS: Final = 180.0
_QUIET_SECONDS: Final = 8.0
"""Time after a recovery in which a late page would come."""
_EXPLAINED_SECONDS: Final = EXPLAINS_MS / 1000 + 5
"""Time after an outage of a cluster until the monitor no longer attributes late records to it. The monitor
learns of its end within 5 s of the last late record."""


def main() -> None:
    """Print a row for each fault, then the table. Raises SystemExit if a row is not as expected."""
    faults, folder = (
        wanted(os.environ.get("FAULTS", "")),
        Path(os.environ.get("FOLDER", ".headrace/histories")),
    )
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, ...]] = []
    with site() as running:
        for fault in faults:
            rows.append(_row(running, fault, folder))
            print(" | ".join(rows[-1]), flush=True)
    text = table(rows)
    (folder / "table.md").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}")
    if os.environ.get("WRITE") and len(rows) == len(FAULTS):
        write(text)
    if wrong := [one[0] for one in rows if one[-1] != OK]:
        sys.exit(f"not as expected: {', '.join(wrong)}")


def write(text: str, page: Path = PAGE) -> None:
    """Replace the table between the markers of the page."""
    replace_between(page, BEGIN, END, text)


def observe(site: Site, fault: Fault) -> tuple[Seen, dict[str, Any]]:
    """Wait for normal operation, carry out a fault and its repair, and wait until all has recovered.

    Returns the observations, and details to store with them."""
    unrest = site.calm()
    began = time.time()
    fault.act(site)
    ended = time.time()
    unrest = unrest or _recover(site)
    limit, until = site.traffic.limit, time.time()
    intervals = {
        name: late_intervals(site.traffic.late(topics), limit, began, until)
        for name, topics in DATASTREAMS.items()
    }
    lasts = [interval[-1][1] for interval in intervals.values() if interval]
    seen = Seen(
        began,
        max(lasts, default=None),
        site.pages.since(began),
        [one for one in site.get("/v1/incidents") if one["opened_ms"] >= began * 1000],
        {name: seconds_of(one) for name, one in intervals.items()},
        unrest,
    )
    if not unrest and fault.causes & frozenset(UNAVAILABLE.values()):
        _outlast(site)
    return seen, {"ended": ended, "intervals": intervals}


def row_of(fault: Fault, seen: Seen) -> tuple[str, ...]:
    """Return the table row of a fault."""
    expected = Expected(fault.name, fault.pages, frozenset(map(str, fault.causes)), fault.is_exempt)
    return row(expected, seen)


def _row(site: Site, fault: Fault, folder: Path) -> tuple[str, ...]:
    seen, details = observe(site, fault)
    _store(site, folder / f"{fault.name}.json", seen, details)
    return row_of(fault, seen)


def _recover(site: Site) -> str:
    """Wait until records are in time and incidents are closed. Return the remaining deviation."""
    try:
        wait_until(site.traffic.is_in_time, _PATIENCE_SECONDS, "records are in time", interval_seconds=0.2)
    except NotInTime:
        return "records are late"
    time.sleep(_QUIET_SECONDS)
    return site.calm(_PATIENCE_SECONDS)


def _outlast(site: Site) -> None:
    """Wait until the monitor would not attribute the effects of the next fault to this outage."""

    def is_past() -> bool:
        return not site.traffic.was_late_since(time.time() - _EXPLAINED_SECONDS)

    wait_until(is_past, _PATIENCE_SECONDS, "the outage is past", interval_seconds=0.5)


def _store(site: Site, file: Path, seen: Seen, more: dict[str, Any]) -> None:
    since_ms = seen.began * 1000
    events = [one for one in site.get("/v1/events", limit=200) if one["time_ms"] >= since_ms]
    document = {**asdict(seen), **more, "events": events}
    file.write_text(json.dumps(document, indent=1, default=str), encoding="utf-8")


if __name__ == "__main__":
    main()
