"""Rules for names that users choose. Read `look_alikes.py`."""
