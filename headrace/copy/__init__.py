"""Implementation of `headrace copy`, which runs without a service.

`run.py` plans and distributes lanes to a pool of workers, `worker.py` is the main program of a worker
process, `transfer.py` copies from and to connectors, and `report.py` prints progress and results. Imports
`console` and `process`.
"""
