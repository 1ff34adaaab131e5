"""Diagnoses an installation: `headrace doctor`.

`examination.py` collects facts about all configured clusters, servers and files. The other modules evaluate
these facts without I/O: clusters in `clusters.py`, topics and their copies in `topics.py`, ZooKeeper servers
in `ensemble.py`, clocks in `clocks.py`, plug-ins in `plug_ins.py`, this machine and the settings in
`host.py`. `store.py` reads the embedded store and evaluates the store on Kafka.
"""
