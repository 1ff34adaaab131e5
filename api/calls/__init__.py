"""Long-running requests, concurrency limits, request ids, and requests interrupted by a shutdown."""
