"""Worker processes: main loop of a worker, channel to the control process, and pool of workers."""
