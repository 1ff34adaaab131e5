"""All datastreams that share tasks, as one thing on /v1."""
