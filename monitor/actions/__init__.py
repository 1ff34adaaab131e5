"""Decisions about rebalances by the monitor: switches, modes, freeze windows, daily limits. Pure.

A decision is an immutable value with its reason as text. `monitor/rebalances.py` executes it.
`monitor.actions` imports no other part of the monitor. `mirror/model/capacity/freeze.py` parses the freeze
windows.
"""
