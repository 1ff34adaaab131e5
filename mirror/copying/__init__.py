"""One worker process: sockets and files around `wire/` and `lane/`, which decide what becomes of a batch.

Imports lane, wire, options, ports, model and errors; no client library. Read `engine.py` (what a worker
is asked), then `workbench.py`, `live_lane.py`, `source.py` and `sink.py`; `worker.py` is the process.
"""
