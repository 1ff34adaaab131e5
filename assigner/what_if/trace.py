"""Exports recorded loads to a file that can be shared, optionally without topic names and dates. Pure.

The file has the columns that `hours_from_csv` reads. If anonymised, topics are numbered in random order and
hours start in the first whole week of 1970; weekday, hour of the day and rates are unchanged.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from random import Random
from typing import Final

from assigner.forecast.outlook import HOUR_MS
from assigner.what_if.replay import Hourly
from mirror.model.topics import TopicPartition

_HEAD: Final = ("hour_ms", "topic", "partition", "bytes_per_second", "messages_per_second")
_WEEK_MS: Final = 168 * HOUR_MS


def anonymised(hours: Hourly, random: Random) -> Hourly:
    """Return the loads without topic names and dates.

    Use an unpredictable `random` if the order of topics must stay secret: with a known seed the same topics
    get the same numbers.
    """
    topics = sorted({partition.topic for loads in hours.values() for partition in loads})
    random.shuffle(topics)
    width = len(str(len(topics)))
    names = {topic: f"topic-{number:0{width}}" for number, topic in enumerate(topics, 1)}
    since = min(hours, default=0) // _WEEK_MS * _WEEK_MS
    return {
        hour - since: {
            TopicPartition(names[partition.topic], partition.partition): load
            for partition, load in loads.items()
        }
        for hour, loads in hours.items()
    }


def lines(hours: Hourly) -> Iterator[str]:
    """Yield the recorded loads as CSV lines, oldest hour first, starting with the column names."""
    yield _line(*_HEAD)
    for hour in sorted(hours):
        for partition, load in sorted(hours[hour].items()):
            messages = "" if load.messages_per_second is None else f"{load.messages_per_second:.6g}"
            yield _line(hour, partition.topic, partition.partition, f"{load.bytes_per_second:.6g}", messages)


def _line(*values: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
