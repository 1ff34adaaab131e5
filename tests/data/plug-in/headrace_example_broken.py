"""A module that cannot be imported."""

raise RuntimeError("its library is too old")
