"""`headrace copy` without a service: `run.py` plans, gives lanes to a pool of workers and follows it,
`worker.py` begins a worker process, `report.py` prints what they did. Imports `clusters`, `console` and
`process`.
"""
