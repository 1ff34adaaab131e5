"""Plans computed by one instance without publishing them. Read `answers.py`."""
