"""Reports whether the receive window of a broker limits the rate of connections."""

from __future__ import annotations

from mirror.client.connection import Connection
from mirror.replication.channels.send_window import SendWindow


class WindowReports:
    """Measures whether receive windows have limited connections since the previous report."""

    def __init__(self) -> None:
        self._windows: dict[Connection, SendWindow] = {}

    def is_limit(self, connection: Connection, now: float) -> bool:
        """Return whether the receive window has limited the connection since the previous call."""
        window = self._windows.get(connection)
        if window is None:
            self._windows = {known: window for known, window in self._windows.items() if known.is_open}
            window = self._windows[connection] = SendWindow()
        if connection.is_open:
            info = connection.transport.tcp_info()
            window.note(info, now, info.round_trip)
        return window.is_limit
