"""`headrace datastream …`: commands that call /v1/datastreams. `group.py` lists the commands."""
