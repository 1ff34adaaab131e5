"""Use of topics: the thread that observes it, and the use cases of retirements."""
