"""Creates topics on a cluster. May import the other modules of `mirror.client`. Start with `creation.py`."""
