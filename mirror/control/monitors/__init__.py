"""Use cases of monitors, and permission for their actions. Read `acts.py`."""
