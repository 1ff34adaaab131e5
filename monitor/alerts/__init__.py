"""Alerts of the monitor: conditions, silences, and the queue of each receiver.

Decisions are pure: callers pass the time as an argument. The clients of receivers are in
`monitor/adapters/receivers/`. Each receiver has its own thread, so that it cannot delay the evaluation. This
package may import other modules of `monitor/`; these import only the settings of this package. Read
`alert.py`, `conditions.py`, `deliveries/outbox.py`, `dispatch.py`.
"""
