"""Fixtures of the mirroring benchmarks: clusters, source data, the engines compared, sampling of processes.

Read `clusters` first, then `data`, `engines` and `watch`. The benchmarks are the modules of `bench/mirror/`.
"""
