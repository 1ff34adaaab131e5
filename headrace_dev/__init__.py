"""The distribution `headrace-dev`: local servers, the demo, calibration, and the generated pages of docs/.

The product does not need it. May import every other package; nothing imports it except tests and benchmarks.
Start with `__main__.py`.
"""
