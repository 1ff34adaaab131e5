"""`headrace datastream …`: the use cases of /v1/datastreams. `group.py` lists them."""
