"""Definitions that ZooKeeper has lost, until an operator restores or forgets them. May import `stores`. Read
`store.py`; `stores/deletions/record.py` records what was deleted and so is not lost."""
