"""Checks that all instances have the same plug-ins, because any instance may become leader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.doctor.diagnosis import DoctorFinding, Subject, some_of

_KINDS: Final = (
    ("placement strategy", "strategy", "strategies"),
    ("load provider", "load_provider", "load_providers"),
)
"""Display name, field of a datastream's `placement`, and field of an instance's health."""
_SERVICE: Final = Subject("service")
_INSTALL: Final = "install its package there, in Headrace's Python environment (docs/plug-ins.md)"


def examined_plug_ins(
    instances: Sequence[Mapping[str, Any]], datastreams: Sequence[Mapping[str, Any]]
) -> Iterator[DoctorFinding]:
    """Report plug-ins that an instance lacks although a datastream or another instance has them.

    `instances`, `datastreams`: responses of `GET /v1/instances` and `GET /v1/datastreams`. If an instance
    does not respond, or is too old to report plug-ins, its plug-ins are not reported as missing.
    """
    for kind, field, names in _KINDS:
        chosen: defaultdict[str, list[str]] = defaultdict(list)
        for datastream in datastreams:
            if name := (datastream.get("placement") or {}).get(field):
                chosen[name].append(datastream["name"])
        installed = {instance["name"]: (instance["health"] or {}).get(names) for instance in instances}
        if chosen and (unsaid := [instance for instance, found in installed.items() if found is None]):
            sentence = f"unknown {names.replace('_', ' ')} of {some_of(unsaid)}"
            yield _SERVICE.unknown(sentence)
        for name, places in _missing(installed, chosen).items():
            sentence = f"{kind} {name} is not installed on {some_of(places)}"
            if name in chosen:
                follows = "the service's default applies while such an instance leads"
                subject = Subject(f"datastream {some_of(chosen[name])}")
                yield subject.problem(f"{sentence}: {follows}", _INSTALL)
            else:
                yield _SERVICE.warning(sentence, _INSTALL)


def _missing(
    installed: Mapping[str, Sequence[str] | None], chosen: Collection[str]
) -> Mapping[str, Sequence[str]]:
    """Map each plug-in to the instances that lack it."""
    has = {instance: set(found) for instance, found in installed.items() if found is not None}
    lacking = {
        name: [instance for instance, found in has.items() if name not in found]
        for name in sorted(set(chosen).union(*has.values()))
    }
    return {name: places for name, places in lacking.items() if places}
