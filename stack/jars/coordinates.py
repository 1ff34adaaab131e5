"""The committed lists of jars for each server, with their SHA-256."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stack.errors import JarsUnavailable, UnknownName

SET_NAMES: Final = ("kafka", "pinot", "spark")
"""Sets of jars that the set-up fetches."""
KAFKA_RELEASES: Final = {
    "kafka-2.8": "2.8.2",
    "kafka-3.9": "3.9.1",
    "kafka-4.0": "4.0.0",
    "kafka-4.3": "4.3.1",
    "kafka-4.4": "4.4.0",
}
"""Sets with other releases of Kafka's broker, fetched when a test starts one of them."""
NEWER_KAFKA: Final = "kafka-4.4"
"""Set of jars for tests of features that the Kafka of the set "kafka" lacks."""
_LISTS: Final = Path(__file__).with_name("artefacts")
TIERED_KAFKA: Final = "kafka-tiered"
"""Set with a remote storage of Kafka's own tests, which keeps segments in a folder (KIP-405)."""
_LINE: Final = re.compile(r"([\w.-]+):([\w.-]+):([\w.-]+)(?::([\w-]+))? ([0-9a-f]{64})")


@dataclass(frozen=True, order=True)
class Artefact:
    """One jar in the registry: `group:name:version`, and its expected SHA-256. `classifier`: empty for the
    main jar of the module."""

    group: str
    name: str
    version: str
    sha256: str = ""
    classifier: str = ""

    @property
    def coordinate(self) -> str:
        """Coordinate in the form `group:name:version` or `group:name:version:classifier`."""
        return f"{self.group}:{self.name}:{self.version}" + (f":{self.classifier}" if self.classifier else "")

    @property
    def file_name(self) -> str:
        """File name of the jar, which contains the version, because different groups have jars of the same
        name."""
        return f"{self.name}-{self.version}" + (f"-{self.classifier}.jar" if self.classifier else ".jar")


def list_file(set_name: str) -> Path:
    """Return the committed list of a set. Raises UnknownName."""
    if set_name not in (*SET_NAMES, *KAFKA_RELEASES, TIERED_KAFKA):
        raise UnknownName(f"unknown jar set {set_name!r}", advice=f"choose from {', '.join(SET_NAMES)}")
    return _LISTS / f"{set_name}.txt"


def artefacts_of(set_name: str) -> tuple[Artefact, ...]:
    """Return the jars of a set in class path order. Raises UnknownName, JarsUnavailable."""
    file = list_file(set_name)
    return parse_list(file.read_text(encoding="utf-8"), str(file))


def parse_list(text: str, where: str) -> tuple[Artefact, ...]:
    """Parse lines of `coordinate sha256`; `#` starts a comment. Raises JarsUnavailable."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        if content:
            match = _LINE.fullmatch(content)
            if match is None:
                raise JarsUnavailable(
                    f"{where} line {number} is not 'group:name:version sha256'",
                    advice="python -m stack.jars lock rewrites the list",
                )
            group, name, version, classifier, sum_ = match.groups()
            found.append(Artefact(group, name, version, sum_, classifier or ""))
    names = [artefact.file_name for artefact in found]
    if len(set(names)) < len(names):
        raise JarsUnavailable(f"{where} lists a jar twice: {max(names, key=names.count)}")
    return tuple(found)


def format_list(heading: str, artefacts: Iterable[Artefact]) -> str:
    """Return a list as text, the inverse of `parse_list`; `heading` becomes a comment."""
    lines = [f"{artefact.coordinate} {artefact.sha256}" for artefact in artefacts]
    return "\n".join((f"# {heading}", *lines)) + "\n"
