"""What is to be said of plug-ins: any instance may lead, and then needs those that datastreams choose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.doctor.diagnosis import Diagnosis, Grade, some_of

_KINDS: Final = (
    ("placement strategy", "strategy", "strategies"),
    ("load provider", "load_provider", "load_providers"),
)
"""Each in words, as a field of a datastream's `placement`, and as one of an instance's health."""
_INSTALL: Final = "install its package there, in the Python that runs Headrace (docs/plug-ins.md)"


def examined_plug_ins(
    instances: Sequence[Mapping[str, Any]], datastreams: Sequence[Mapping[str, Any]]
) -> Iterator[Diagnosis]:
    """By answers of `GET /v1/instances` and `GET /v1/datastreams`: a plug-in that a datastream chooses and an
    instance lacks, and one that only some instances have. Instances that have not answered, or are of a
    version that does not say what they have, lack nothing."""
    for what, field, names in _KINDS:
        chosen: defaultdict[str, list[str]] = defaultdict(list)
        for one in datastreams:
            if name := (one.get("placement") or {}).get(field):
                chosen[name].append(one["name"])
        said = {one["name"]: (one["health"] or {}).get(names) for one in instances}
        if chosen and (unsaid := [instance for instance, found in said.items() if found is None]):
            sentence = f"not known which {names.replace('_', ' ')} there are at {some_of(unsaid)}"
            yield Diagnosis("service", Grade.UNKNOWN, sentence)
        for name, places in _missing(said, chosen).items():
            sentence = f"the {what} {name} is missing at {some_of(places)}"
            if name in chosen:
                follows = "the service's is used while one of them leads"
                subject = f"datastream {some_of(chosen[name])}"
                yield Diagnosis(subject, Grade.PROBLEM, f"{sentence}: {follows}", _INSTALL)
            else:
                yield Diagnosis("service", Grade.WARNING, sentence, _INSTALL)


def _missing(
    said: Mapping[str, Sequence[str] | None], chosen: Collection[str]
) -> Mapping[str, Sequence[str]]:
    """By name the instances that lack it, of all that are chosen or that an instance has."""
    has = {instance: set(found) for instance, found in said.items() if found is not None}
    lacking = {
        name: [instance for instance, found in has.items() if name not in found]
        for name in sorted(set(chosen).union(*has.values()))
    }
    return {name: places for name, places in lacking.items() if places}
