"""Coordination through two topics of a Kafka cluster, for several instances without ZooKeeper.

The order of the log topic decides every conflict; the state machine is `mirror/coordination/store`. Read
`store.py`, then `session.py`, which makes the store available to other threads.
"""
