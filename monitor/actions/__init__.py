"""Whether the monitor may ask for a rebalance: switches, modes, freeze windows, limits of a day. Pure.

A decision is a value with a sentence; `monitor/rebalances.py` does what was decided. May import nothing of
the monitor. The windows are read by
`mirror/model/sizing/freeze.py`.
"""
