"""Records of datastreams beside their definitions: initial partitions and lost definitions.

Initial partitions are stored for datastreams that start at `latest`. A lost definition is missing from the
coordination store, and is kept until an operator restores or forgets it. Imports the stores and the model.
`stores/deletion_record.py` distinguishes deleted from lost definitions.
"""
