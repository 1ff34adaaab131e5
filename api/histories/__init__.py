"""History of loads and latencies on /v1: queries and responses. Pure."""
