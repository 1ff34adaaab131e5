"""Coordination store in two topics of a Kafka cluster.

Conflicts are resolved by the order of the log topic. The state machine is in `mirror/coordination/store`.
Start with `store.py`, then read `session.py`, which makes the store available to other threads.
"""
