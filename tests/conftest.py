"""Fixtures that every test may use; the real servers come from stack/fixtures.py."""

from __future__ import annotations

pytest_plugins = ["stack.fixtures"]
