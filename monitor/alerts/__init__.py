"""Alerts of the monitor: when they fire, silences, and the queue of each receiver.

Decisions are pure: callers pass the time as an argument. The clients of receivers are in
`monitor/adapters/receivers/`. Each receiver has its own thread, and cannot delay the evaluation.
`monitor.alerts` may import other modules of `monitor`, which may import only `monitor.alerts.settings`. Read
`alert.py` first, then `conditions.py`, `deliveries/outbox.py` and `dispatch.py`.
"""
