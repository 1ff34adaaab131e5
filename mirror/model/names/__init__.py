"""Rules of the names that users choose. Read `look_alikes.py`."""
