"""Alerts of the monitor: conditions, silences, and the queue of each receiver.

Decisions are pure; the time is passed in. The clients of receivers are in `monitor/adapters/receivers/`. Each
receiver has its own thread, so that it cannot delay the evaluation. May import the modules of `monitor/`,
which import only the settings of this package. Read `alert.py`, `conditions.py`, `deliveries/outbox.py`,
`dispatch.py`.
"""
