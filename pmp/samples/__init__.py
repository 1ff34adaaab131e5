"""One measurement of one partition: its bytes, columns of them, and how the sampler measures it."""
