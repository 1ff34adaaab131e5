"""Operations of monitors, and the permission for rebalances by monitors. Start with `acts.py`."""
