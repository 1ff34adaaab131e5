"""Root node of the service, format version of the stored state, and secret shared by the instances."""

from __future__ import annotations

import contextlib
import secrets
from typing import Final

from mirror.coordination.stores import znodes
from mirror.errors import AlreadyExists, CorruptData, DamagedState, IllegalTransition, NewerFormat, NotFound
from mirror.ports import NodeStore

_MOST_DIGITS: Final = 9
_SECRET_BYTES: Final = 32


def ensure_root(nodes: NodeStore) -> None:
    """Create the root node on first use. Raises NewerFormat if a newer version has written to the store."""
    if not check_root(nodes):
        try:
            nodes.create(znodes.VERSION, str(znodes.FORMAT).encode())
        except AlreadyExists:
            ensure_root(nodes)  # another instance was first


def check_root(nodes: NodeStore) -> bool:
    """Return whether the root node exists, without creating it. Raises NewerFormat; CorruptData;
    IllegalTransition if an import is unfinished."""
    present = nodes.read_present([znodes.IMPORT, znodes.VERSION])
    if znodes.IMPORT in present:
        raise IllegalTransition(
            "the import of a state is not finished", advice="repeat headrace state import"
        )
    if znodes.VERSION not in present:
        return False
    data = present[znodes.VERSION].data
    if not data.isdigit() or len(data) > _MOST_DIGITS:
        raise CorruptData(
            f"node {znodes.VERSION} of the coordination store does not contain a number",
            advice="check zookeeper.root, or restore the store",
        )
    if int(data) > znodes.FORMAT:
        raise NewerFormat(
            f"the stored state has format {int(data)}, but this version supports up to {znodes.FORMAT}",
            advice="upgrade this instance, or choose another store ([coordination], [zookeeper] or"
            " mirror.state_directory)",
        )
    return True


def service_secret(nodes: NodeStore) -> str:
    """Return the secret that all instances share. Creates it on first use. Raises DamagedState. The ACL of
    the session protects all nodes, also the secret."""
    while True:
        try:
            data = nodes.read(znodes.SHARED_KEY).data
        except NotFound:
            with contextlib.suppress(AlreadyExists):  # another instance was first
                nodes.create(znodes.SHARED_KEY, secrets.token_hex(_SECRET_BYTES).encode())
            continue
        if len(data) < _SECRET_BYTES:
            raise DamagedState(
                f"the secret in {znodes.SHARED_KEY} is too short", advice="delete this node to get a new one"
            )
        return data.decode(errors="replace")
