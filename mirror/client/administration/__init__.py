"""Creation, extension and description of topics. Modules of this package may import the other modules of
`mirror.client`. Start with `creation.py`."""
