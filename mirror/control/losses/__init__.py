"""Operations on datastreams that the coordination store has lost. Start with `lost_datastreams.py`."""
