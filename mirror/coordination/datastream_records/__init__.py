"""Records of datastreams beside their definitions: the partitions with which a datastream that starts at
`latest` began, and the definitions that the coordination store has lost, which are kept until an operator
restores or forgets them.

Imports the stores and the model. Read `first_partitions.py`; `stores/deletion_record.py` distinguishes
deleted from lost definitions.
"""
