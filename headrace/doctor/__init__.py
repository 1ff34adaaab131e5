"""What is wrong with a set-up, and what to do about it: `headrace doctor`.

`examination.py` looks at everything that the settings name; what it finds is judged without I/O, a cluster in
`clusters.py`, topics and their copies in `topics.py`, the servers of ZooKeeper in `ensemble.py`, this machine
and the settings in `host.py`.
"""
