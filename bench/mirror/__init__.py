"""Benchmarks of copying, compared with other mirrors on the same clusters."""
