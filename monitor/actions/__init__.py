"""Decisions about rebalances by the monitor: switches, modes, freeze windows, daily limits. Pure.

A decision is a value with a sentence; `monitor/rebalances.py` carries it out. Imports nothing else of the
monitor. `mirror/model/sizing/freeze.py` parses the freeze windows.
"""
