"""Worker processes: the loop of a worker, the channel between a worker and the control process, and the pool
of workers."""
