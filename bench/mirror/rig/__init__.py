"""What the measurements of mirroring share: clusters, source data, the engines compared, a watch.

Read `clusters` first, then `data`, `engines` and `watch`; the measurements are the modules of
`bench/mirror/`.
"""
