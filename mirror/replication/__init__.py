"""The engine of one worker: what becomes of each lane's batches between two clusters.

`lane/` and `protocol/` decide, `client/` talks to brokers. Read `engine.py` (what a worker is asked), then
`context.py`, `live_lane.py` and `channels/`, where batches come in and leave.
"""
