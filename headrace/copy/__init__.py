"""`headrace copy` without a service: `run.py` plans and starts workers, `worker.py` is their program,
`report.py` prints what they did. Imports `clusters`, `console` and `process`.
"""
