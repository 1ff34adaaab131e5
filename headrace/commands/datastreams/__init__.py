"""`headrace datastream …`: commands over /v1/datastreams. `group.py` lists them."""
