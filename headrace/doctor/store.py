"""Checks the embedded store and the store on Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Final

from headrace.coordination.client import store_folder, store_name
from headrace.doctor.diagnosis import DoctorFinding, Subject
from headrace.settings import HeadraceSettings
from mirror.adapters.embedded_store.lock import holder_of
from mirror.adapters.embedded_store.store import LOCK_NAME, read_state
from mirror.adapters.kafka_store.survey import SharedStoreFacts
from mirror.errors import ConfigError
from mirror.wording import counted

_SUBJECT: Final = Subject("coordination store")
_REPLICAS: Final = 3
_LITTLE_SPACE: Final = 256 * 1024 * 1024
"""Free disk space in bytes below which there is a warning.

While the store rewrites its file, it needs twice the size of the file.
"""


def examined_shared_store(settings: HeadraceSettings, facts: SharedStoreFacts) -> Iterator[DoctorFinding]:
    """Check the topics of the store on Kafka.

    The caller has already checked the settings of existing topics.
    """
    name = store_name(settings)
    if facts.missing:
        topics = ", ".join(facts.missing)
        yield _SUBJECT.ok(f"{name}: the first headrace serve creates {topics}")
        return
    length = counted(facts.end - facts.start, "record")
    yield _SUBJECT.ok(f"{name}: {length} in the log, {counted(facts.replicas, 'replica')}")
    if facts.replicas < _REPLICAS:
        yield _SUBJECT.note(
            f"{name} has {counted(facts.replicas, 'replica')}: if a broker fails, nothing can be changed, and"
            " copying stops after a while",
            "use three brokers and three replicas in production (docs/coordination-store.md)",
        )


def examined_store(settings: HeadraceSettings) -> Iterator[DoctorFinding]:
    """Check the folder of the embedded store. Raises ConfigError, DamagedStore, NewerFormat."""
    folder = store_folder(settings)
    try:
        holder = holder_of(folder / LOCK_NAME)
        state = read_state(folder)
        free = shutil.disk_usage(folder).free
    except FileNotFoundError:
        yield _SUBJECT.ok(f"{folder} is created by the first headrace serve, which runs alone")
        return
    except OSError as error:
        raise ConfigError(
            f"cannot read {folder}: {error.strerror}",
            advice="run the command as the user of the service, or set mirror.state_directory",
        ) from error
    nodes = counted(len(state.root.children), "node")
    user = f"in use by instance {holder}" if holder else "no instance is running"
    yield _SUBJECT.ok(f"embedded in {folder}, {nodes} at its root; {user}")
    if free < _LITTLE_SPACE:
        yield _SUBJECT.warning(
            f"only {free // 1024**2} MiB free in {folder}",
            "free disk space: on a full disk, datastreams cannot be changed",
        )
