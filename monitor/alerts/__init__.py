"""Whom the monitor calls, and when: what fires, for how long, and what each receiver has yet to hear.

Decisions are pure, the time is passed in; what speaks to a receiver is in `monitor/adapters/receivers/`, and
has a thread of its own, so that none of them holds up the judging. May import the modules of `monitor/`,
which import nothing of it but its settings. Read `alert.py`, `conditions.py`, `deliveries/outbox.py`,
`dispatch.py`.
"""
