"""Fixtures of the copy benchmarks: clusters, source data, the mirrors compared, sampling of processes.

Read `clusters` first, then `data`, `engines` and `watch`. The benchmarks are the modules of `bench/mirror/`.
"""
