"""What a new or changed definition has to keep to beside the others. Read `checks.py`."""
