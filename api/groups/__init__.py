"""Groups of datastreams that share tasks, on /v1."""
