"""Plans that are only shown, as one instance computes them. Read `answers.py`."""
