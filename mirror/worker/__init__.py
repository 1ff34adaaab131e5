"""Worker processes: the program, the pipe to it, and what its parent knows of it."""
