"""Worker processes: their loop, the pipe to them, and the pool that manages them."""
