"""The service's root in ZooKeeper and its format."""

from __future__ import annotations

from typing import Final

from mirror.coordination.stores import znodes
from mirror.errors import AlreadyExists, CorruptData, NewerFormat, NotFound
from mirror.ports import NodeStore

_MOST_DIGITS: Final = 9


def ensure_root(nodes: NodeStore) -> None:
    """Make the root on first use. Raises NewerFormat when a newer version has written to it."""
    if not check_root(nodes):
        try:
            nodes.create(znodes.VERSION, str(znodes.FORMAT).encode())
        except AlreadyExists:
            ensure_root(nodes)  # another instance was first


def check_root(nodes: NodeStore) -> bool:
    """Whether there is a root, without making one. Raises NewerFormat, CorruptData."""
    try:
        data = nodes.read(znodes.VERSION).data
    except NotFound:
        return False
    if not data.isdigit() or len(data) > _MOST_DIGITS:
        raise CorruptData(f"znode {znodes.VERSION} does not hold a number", advice="is zookeeper.root right?")
    if int(data) > znodes.FORMAT:
        raise NewerFormat(
            f"the state in ZooKeeper has format {int(data)}, this version writes {znodes.FORMAT}",
            advice="upgrade this instance or choose another zookeeper.root",
        )
    return True
