"""Use of topics: the thread that looks at them, and the use cases of their retirement."""
