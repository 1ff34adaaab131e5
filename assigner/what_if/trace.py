"""A recorded past as a file that can be given to others. Pure.

The same columns as `hours_from_csv` reads. Anonymised, topics are numbers in random order, hours begin in the
first whole week of 1970 with the weekday and the hour of the day as they were, and rates are as they were.
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
    """The same loads without the names of topics and without the dates. `random` must not be guessable where
    the order of topics is not to be found out: with a seed the same topics get the same numbers."""
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
    """CSV, oldest hour first, with a line that names the columns."""
    yield _line(*_HEAD)
    for hour in sorted(hours):
        for partition, load in sorted(hours[hour].items()):
            messages = "" if load.messages_per_second is None else f"{load.messages_per_second:.6g}"
            yield _line(hour, partition.topic, partition.partition, f"{load.bytes_per_second:.6g}", messages)


def _line(*values: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue()
