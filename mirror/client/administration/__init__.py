"""Topic creation. May import the other modules of `mirror.client`. Start with `creation.py`."""
