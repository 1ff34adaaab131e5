"""Rules for names that users choose. Start with `look_alikes.py`."""
