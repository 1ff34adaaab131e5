"""Functions of the commands that show and change datastreams.

`fields.py` defines the options for the fields of a datastream, `manifests.py` reads definition files,
`difference.py` computes and applies changes, `changes.py` prints changes, and `conditions.py` waits for a
condition.
"""
