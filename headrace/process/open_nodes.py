"""Warns about unprotected znodes, in the health report and in `headrace config check`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from mirror.instance.health import Health
from mirror.loggers import get_logger
from mirror.settings import ZooKeeperSettings
from mirror.wording import first_few

if TYPE_CHECKING:
    from mirror.adapters.zookeeper import ZooKeeper

_log = get_logger(__name__)
PART: Final = "access to ZooKeeper"
_SHOWN: Final = 3


def report_open_nodes(session: ZooKeeper, settings: ZooKeeperSettings, health: Health) -> None:
    """Report znodes that other clients can read or change. Raises Unreachable.

    Checks the actual ACLs in ZooKeeper, not the settings.
    """
    if found := session.open_nodes():
        sentence = _sentence(settings, found)
        health.report(PART, True, sentence)
        _log.warning("znodes are unprotected", reason=sentence)


def openness(settings: ZooKeeperSettings) -> str:
    """Return a warning if the settings would leave the root znode unprotected. Does not connect."""
    return "" if settings.security.is_private else _sentence(settings, [settings.root])


def _sentence(settings: ZooKeeperSettings, paths: Sequence[str]) -> str:
    named = first_few(paths, _SHOWN)
    why = (
        "created before zookeeper.security was set: protect them with setAcl -R"
        if settings.security.is_private
        else "set zookeeper.security"
    )
    return (
        f"OPEN: every client of ZooKeeper at {settings.servers} can change {named} and control this service"
        f" ({why}; docs/zookeeper.md)"
    )
