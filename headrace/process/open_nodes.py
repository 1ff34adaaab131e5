"""Whether ZooKeeper is open to all, as health and `headrace config check` say it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from mirror.adapters.zookeeper import ZooKeeper
from mirror.instance.health import Health
from mirror.settings import ZooKeeperSettings
from mirror.wording import first_few

_log = structlog.get_logger(__name__)
PART: Final = "access to ZooKeeper"
_SHOWN: Final = 3


def report_open_nodes(session: ZooKeeper, settings: ZooKeeperSettings, health: Health) -> None:
    """Have health show what others than we may read or change: what instances find when they start, whatever
    the settings say. Raises Unreachable."""
    if found := session.open_nodes():
        sentence = _sentence(settings, found)
        health.report(PART, True, sentence)
        _log.warning("nodes are open", reason=sentence)


def openness(settings: ZooKeeperSettings) -> str:
    """What these settings leave open, without asking; empty: nothing."""
    return "" if settings.security.is_private else _sentence(settings, [settings.root])


def _sentence(settings: ZooKeeperSettings, paths: Sequence[str]) -> str:
    named = first_few(paths, _SHOWN)
    why = (
        "they were made before zookeeper.security: close them with setAcl -R"
        if settings.security.is_private
        else "set zookeeper.security"
    )
    return (
        f"OPEN: who reaches ZooKeeper at {settings.servers} may change {named}, and so command this service"
        f" ({why}; docs/zookeeper.md)"
    )
