"""The distribution `headrace-dev`: local servers, the demo, calibration, and the generated pages of docs/.

Headrace itself does not need this distribution. May import every other package. Only tests and benchmarks
import this package. Start with `__main__.py`.
"""
