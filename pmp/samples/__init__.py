"""Partition metric samples: their byte format, the decoder into columns, and the sampler's measurements."""
