"""Partition metric samples: the byte format, the column decoder and the sampler's measurements."""
