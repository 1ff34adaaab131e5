"""Fixtures that every test may use; the real servers come from stack/fixtures.py."""

from __future__ import annotations

import signal

pytest_plugins = ["stack.fixtures"]

# A shell makes what it starts in the background deaf to ctrl-C, and our tests' children would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
